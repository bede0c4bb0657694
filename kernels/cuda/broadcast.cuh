// Loops for functions of several operands that are broadcast to one shape.
#pragma once
#include "elementwise.cuh"

// Axis is an axis of the result. Axes are listed innermost first. For i below 2^31, i / size is (i*magic >> 32) + i >> shift. No index
// exceeds that, since Go splits larger results. stride is the distance between neighbours in an operand, in elements, or 0 if the operand
// is broadcast along the axis.
struct alignas(8) Axis { u32 size, magic, shift, stride[3]; };
struct Axes { Axis axis[8]; };

// locate finds the offset of element i of the result in each of M operands.
template <int M> DEVICE void locate(const Axes &axes, u32 rank, u32 i, u32 at[M]) {
#pragma unroll
  for (int m = 0; m < M; m++) at[m] = 0;
#pragma unroll 1
  for (u32 d = 0; d + 1 < rank; d++) {
    const u32 q = (__umulhi(i, axes.axis[d].magic) + i) >> axes.axis[d].shift;
    const u32 r = i - q * axes.axis[d].size;
#pragma unroll
    for (int m = 0; m < M; m++) at[m] += r * axes.axis[d].stride[m];
    i = q;
  }
#pragma unroll
  for (int m = 0; m < M; m++) at[m] += i * axes.axis[rank - 1].stride[m];
}

// take loads N neighbours of an operand, or N copies of one element if stride is 0.
template <int N, class T> DEVICE Pack<T, N> take(const T *p, u32 at, u32 stride) {
  if (stride) return load_pack<N>(p + at);
  Pack<T, N> x;
  x.v[0] = p[at];
#pragma unroll
  for (int k = 1; k < N; k++) x.v[k] = x.v[0];
  return x;
}

// binary computes out = F::of(a, b) for n elements; n is below 2^31. wide is set if packs do not cross rows and are aligned in all operands
// that are not broadcast along the innermost axis. out may be a or b.
template <class F, class T, class R, int N = PACK<T>> DEVICE void binary(const T *a, const T *b, R *out, u32 n, u32 wide, u32 rank, const Axes &axes) {
  typedef typename Wide<T>::type W;
  const u32 packed = PACKED(n, N, wide), packs = packed / N, parts = packs + (n - packed);
  for (u32 part = grid_index(); part < parts; part += grid_threads()) {
    const bool whole = N > 1 && part < packs;
    const u32 i = whole ? part * N : packed + (part - packs);
    u32 at[2];
    locate<2>(axes, rank, i, at);
    if (whole) {
      const Pack<T, N> x = take<N>(a, at[0], axes.axis[0].stride[0]), y = take<N>(b, at[1], axes.axis[0].stride[1]);
      Pack<R, N> z;
#pragma unroll
      for (int k = 0; k < N; k++) z.v[k] = R(F::of((W)x.v[k], (W)y.v[k]));
      store_pack<N>(out + i, z);
    } else {
      out[i] = R(F::of((W)a[at[0]], (W)b[at[1]]));
    }
  }
}

#define BINARY_TO(R, N, name, F, suffix, T)                                                                    \
  KERNEL(name##_##suffix)(const T *a, const T *b, R *out, u64 n, u64 wide, u64 rank, const Axes axes) {        \
    binary<F, T, R, N>(a, b, out, n, wide, rank, axes);                                                        \
  }
// BINARY is for functions of few instructions, SINGLE for others, COMPARE for tests.
#define BINARY(name, F, suffix, T) BINARY_TO(T, PACK<T>, name, F, suffix, T)
#define COMPARE(name, F, suffix, T) BINARY_TO(bool, PACK<T>, name, F, suffix, T)
#define SINGLE(name, F, suffix, T) BINARY_TO(T, 1, name, F, suffix, T)
