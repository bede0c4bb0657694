// Operands of matrix products C[m][n] = sum over k of A[m][k]·B[k][n]. Both are read by an outer index (m, or n for B) and an inner one
// (k). An operand decodes each index once (Outer, Inner) and locates the element for both. It returns nullptr where the product uses zero:
// beyond the edges, or in the padding. A convolution is thus a product with a matrix of patches that is never stored.
#pragma once
#include "troupe.cuh"

// GEMM_KERNEL declares a kernel with the given number of threads, two blocks of which should fit on a multiprocessor.
#define GEMM_KERNEL(threads, name) extern "C" __global__ void __launch_bounds__(threads, 2) name
#define METHOD __device__ __forceinline__

// unknown hides a flag's value from the compiler, which would otherwise duplicate whole loops for it.
DEVICE u64 unknown(u64 flag) {
#ifdef __CUDA__
  asm volatile("" : "+l"(flag));
#endif
  return flag;
}

// NOWHERE is a row outside all images, even after any offset has been added to it, except a second NOWHERE.
constexpr i32 NOWHERE = -(1 << 30);

// Run is a run of elements that are read or written at once.
template <class T, int count> struct Run {
  T v[count];
};

template <int bytes> struct Words {
  typedef u32 type __attribute__((vector_size(bytes), may_alias));
};

template <int count, class T> DEVICE Run<T, count> get(const T *from) {
  typedef Run<T, count> All;
  return BITS_AS(All, *(const typename Words<sizeof(All)>::type *)from);
}

template <int count, class T> DEVICE void set(T *to, const Run<T, count> &run) {
  typedef typename Words<sizeof(run)>::type All;
  *(All *)to = BITS_AS(All, run);
}

// Matrix is a stored matrix, or data that can be addressed as one.
template <class T> struct Matrix {
  typedef T Element;
  typedef i64 Outer; // the distance from the first element, negative outside
  typedef i64 Inner;
  const T *data;
  u64 outers, inners, outer_step, inner_step;
  u64 vector; // whether runs of 16 bytes are aligned and have one row or column
  METHOD Outer outer(u32 i) const { return i < outers ? (i64)(i * outer_step) : -1; }
  METHOD Inner inner(u32 k) const { return k < inners ? (i64)(k * inner_step) : -1; }
  METHOD const T *at(Outer o, Inner i) const { return o < 0 || i < 0 ? nullptr : data + o + i; }
};

// Image describes how windows move over images whose channels come last. Tap (j, i) of the window at place (y, x) is at row y*stride_y +
// origin_y + j*step_y; columns likewise.
struct Image {
  u64 height, width, channels; // of the images
  u64 rows, columns;           // places in each
  u64 taps_x, depth;           // taps in a row of the window, and the channels of its group
  u64 stride_y, stride_x;
  i64 origin_y, origin_x, step_y, step_x;
};

struct Place {
  i64 base;
  i32 y, x;
};

struct Tap {
  i64 offset;
  i32 y, x;
};

DEVICE Place place_of(const Image &im, u32 i, u64 limit) {
  if (i >= limit) return {0, NOWHERE, 0};
  u32 x = i % (u32)im.columns, line = i / (u32)im.columns;
  u32 y = line % (u32)im.rows, image = line / (u32)im.rows;
  i32 py = (i32)(y * im.stride_y + im.origin_y), px = (i32)(x * im.stride_x + im.origin_x);
  return {(((i64)image * (i64)im.height + py) * (i64)im.width + px) * (i64)im.channels, py, px};
}

DEVICE Tap tap_of(const Image &im, u32 k, u64 limit) {
  if (k >= limit) return {0, NOWHERE, 0};
  u32 tap = k / (u32)im.depth, c = k % (u32)im.depth;
  i32 y = (i32)(tap / (u32)im.taps_x) * (i32)im.step_y, x = (i32)(tap % (u32)im.taps_x) * (i32)im.step_x;
  return {((i64)y * (i64)im.width + x) * (i64)im.channels + c, y, x};
}

template <class T> DEVICE const T *pixel(const T *data, const Image &im, const Place &p, const Tap &t) {
  bool inside = (u32)(p.y + t.y) < im.height && (u32)(p.x + t.x) < im.width;
  return inside ? data + p.base + t.offset : nullptr;
}

// Patches has a row for each place, and a column for each tap of the window and channel.
template <class T> struct Patches {
  typedef T Element;
  typedef Place Outer;
  typedef Tap Inner;
  const T *data;
  u64 outers, inners, vector;
  Image image;
  METHOD Outer outer(u32 i) const { return place_of(image, i, outers); }
  METHOD Inner inner(u32 k) const { return tap_of(image, k, inners); }
  METHOD const T *at(const Outer &o, const Inner &i) const { return pixel(data, image, o, i); }
};

// PatchesTransposed is the transpose of Patches.
template <class T> struct PatchesTransposed {
  typedef T Element;
  typedef Tap Outer;
  typedef Place Inner;
  const T *data;
  u64 outers, inners, vector;
  Image image;
  METHOD Outer outer(u32 i) const { return tap_of(image, i, outers); }
  METHOD Inner inner(u32 k) const { return place_of(image, k, inners); }
  METHOD const T *at(const Outer &o, const Inner &i) const { return pixel(data, image, i, o); }
};

// FilterBack is the filter as used by the gradient with respect to the image: a row for each input channel, and a column for each of some
// taps and each output channel.
template <class T> struct FilterBack {
  typedef T Element;
  typedef i64 Outer;
  typedef i64 Inner;
  const T *data;
  u64 outers, inners, vector;
  u64 taps_x, width;              // taps in a row, results of the group
  u64 columns, tap, channel;      // of the filter: taps in a row, elements of a tap and of a channel
  u64 first_y, first_x, step_y, step_x; // which taps
  METHOD Outer outer(u32 i) const { return i < outers ? (i64)(i * channel) : -1; }
  METHOD Inner inner(u32 k) const {
    if (k >= inners) return -1;
    u32 t = k / (u32)width, o = k % (u32)width;
    u64 y = first_y + t / (u32)taps_x * step_y, x = first_x + t % (u32)taps_x * step_x;
    return (i64)((y * columns + x) * tap + o);
  }
  METHOD const T *at(Outer o, Inner i) const { return o < 0 || i < 0 ? nullptr : data + o + i; }
};

// Sizes holds the sizes of a batch of products. Each product is divided along k into splits of span, which is a multiple of the step of the
// kernels. Another kernel adds up the sums of the splits.
struct Sizes {
  u64 m, n, k, batch, splits, span;
};

// Output is the destination of the product. Row m begins at m*row. With splits, sums go to partial instead, where each split has total
// elements.
template <class T> struct Output {
  typedef T Element;
  typedef typename Wide<T>::type Sum;
  T *data;
  Sum *partial;
  u64 row, total;
  u64 vector; // whether runs of four elements are aligned
  METHOD u64 at(u32 m) const { return m * row; }
};

// PixelOutput has a row for each pixel of a phase: those at (y*stride_y + first_y, x*stride_x + first_x).
template <class T> struct PixelOutput {
  typedef T Element;
  typedef typename Wide<T>::type Sum;
  T *data;
  Sum *partial;
  u64 total, vector;
  u64 rows, columns, height, width, channels, stride_y, stride_x, first_y, first_x;
  METHOD u64 at(u32 m) const {
    u32 x = m % (u32)columns, line = m / (u32)columns;
    u32 y = line % (u32)rows, image = line / (u32)rows;
    return ((image * height + y * stride_y + first_y) * width + x * stride_x + first_x) * channels;
  }
};

// put writes four elements at once or, without vector, one by one as many as there says.
template <class T, class Sum> DEVICE void put(T *to, bool vector, u64 there, const Sum *v) {
  if (vector) {
    Run<T, 4> run;
#pragma unroll
    for (int i = 0; i < 4; i++) run.v[i] = (T)v[i];
    set(to, run);
    return;
  }
  for (int i = 0; i < 4; i++)
    if ((u64)i < there) to[i] = (T)v[i];
}

// store_tile writes rows of sums, which lie line elements apart, to the output.
template <int rows, int columns, int threads, class C>
DEVICE void store_tile(const typename C::Sum *sums, int line, const C &c, u32 m0, u64 m, u32 n0, u64 n, u64 split, bool splits) {
#pragma unroll 1
  for (u32 e = threadIdx.x; e < rows * columns / 4; e += threads) {
    u32 row = e / (columns / 4), column = e % (columns / 4) * 4;
    if (m0 + row >= m || n0 + column >= n) continue;
    const typename C::Sum *v = sums + row * line + column;
    u64 at = c.at(m0 + row) + n0 + column, there = n - n0 - column;
    if (splits) put(c.partial + split * c.total + at, c.vector, there, v);
    else put(c.data + at, c.vector, there, v);
  }
}

// Tile is the part of a product that a block computes.
struct Tile {
  u32 m, n; // of its first element
};

// tile_of assigns tiles of a product to blocks so that concurrent blocks share rows and columns.
template <int rows, int columns> DEVICE Tile tile_of(u64 m, u64 n) {
  const u32 group = 8;
  u32 down = (u32)((m + rows - 1) / rows), across = (u32)((n + columns - 1) / columns);
  u32 first = blockIdx.x / (group * across) * group, in = blockIdx.x % (group * across);
  u32 high = min(group, down - first);
  return {(first + in % high) * rows, in / high * columns};
}
