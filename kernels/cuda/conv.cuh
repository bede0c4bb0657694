// Convolutions and their gradients as matrix products. Images have their channels last. The groups of channels form a batch of products; so
// do the phases of the gradient with respect to the image.
#pragma once
#include "operand.cuh"

// Steps holds the distances between adjacent groups in the operands and the output.
struct Steps {
  u64 a, b, c;
};

// each_group calls body with the operands and output of each group.
template <class A, class B, class C, class F>
DEVICE void each_group(const Sizes &s, const A &a, const B &b, const C &c, const Steps &steps, F body) {
  u32 first = (u32)(blockIdx.y * s.span);
  for (u64 z = blockIdx.z; z < s.batch; z += gridDim.z) {
    A az = a;
    B bz = b;
    C cz = c;
    az.data += z * steps.a;
    bz.data += z * steps.b;
    cz.data += z * steps.c;
    cz.partial += z * steps.c;
    az.inners = bz.inners = min(s.k, first + s.span);
    body(az, bz, cz, first);
    __syncthreads();
  }
}

// Across describes how the window moves along one dimension of the image. Pixels that lie stride apart form a phase: they see the same
// taps, every step-th one from the first.
struct Across {
  u64 in, stride, dilation, before, taps, step;
};

// Phase describes what the pixels of a phase see: the number of taps, the first tap, and the place at which the first pixel sees it.
struct Phase {
  u64 pixels, taps, first;
  i64 origin;
};

DEVICE Phase phase_of(const Across &w, u64 p) {
  Phase phase = {p < w.in ? (w.in - p + w.stride - 1) / w.stride : 0, 0, 0, 0};
  for (u64 tap = 0; tap < min(w.step, w.taps); tap++) {
    i64 over = (i64)(p + w.before) - (i64)(tap * w.dilation);
    if (over % (i64)w.stride != 0) continue;
    phase.first = tap;
    phase.taps = (w.taps - tap + w.step - 1) / w.step;
    phase.origin = over / (i64)w.stride;
    break;
  }
  return phase;
}

// Windows holds how the windows move along both dimensions, and the numbers of images and groups.
struct Windows {
  Across y, x;
  u64 images, groups;
};

// each_phase calls body with the operands and output of each phase of each group.
template <int rows, int columns, class T, class F>
DEVICE void each_phase(const Sizes &s, const Patches<T> &a, const FilterBack<T> &b, const PixelOutput<T> &c, const Steps &steps, const Windows &w, F body) {
  u32 first = (u32)(blockIdx.y * s.span);
  for (u64 z = blockIdx.z; z < s.batch; z += gridDim.z) {
    u64 group = z % w.groups, p = z / w.groups, py = p / w.x.stride, px = p % w.x.stride;
    Phase y = phase_of(w.y, py), x = phase_of(w.x, px);
    u64 m = w.images * y.pixels * x.pixels, k = y.taps * x.taps * b.width;
    if (blockIdx.x >= (m + rows - 1) / rows * ((s.n + columns - 1) / columns)) continue;
    Patches<T> az = a;
    FilterBack<T> bz = b;
    PixelOutput<T> cz = c;
    az.data += group * steps.a;
    az.outers = m;
    az.inners = bz.inners = min(k, first + s.span);
    az.image.rows = y.pixels;
    az.image.columns = x.pixels;
    az.image.taps_x = bz.taps_x = x.taps;
    az.image.origin_y = y.origin;
    az.image.origin_x = x.origin;
    bz.data += group * steps.b;
    bz.first_y = y.first;
    bz.first_x = x.first;
    cz.data += group * steps.c;
    cz.partial += group * steps.c;
    cz.rows = y.pixels;
    cz.columns = x.pixels;
    cz.first_y = py;
    cz.first_x = px;
    body(az, bz, cz, m, first);
    __syncthreads();
  }
}
