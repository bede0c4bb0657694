// Loops for functions of one element. If packs of adjacent elements are aligned, a thread moves a pack at once: 16 bytes of float, 8 of
// half types and bool. Elements of other types are moved singly, which saves code. 8 bytes suffice to keep the memory busy, and small
// integers are rare.
#pragma once
#include "troupe.cuh"

// PACK is the number of elements in a pack. The launches in Go rely on it.
template <class T> constexpr int PACK = 1;
template <> constexpr int PACK<float> = 4;
template <> constexpr int PACK<half> = 4;
template <> constexpr int PACK<bfloat16> = 4;
template <> constexpr int PACK<bool> = 8;

template <class T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };

// Word is the type that a pack is moved as.
template <int bytes> struct Word;
template <> struct Word<1> { typedef u8 type; };
template <> struct Word<2> { typedef u16 type; };
template <> struct Word<4> { typedef u32 type; };
template <> struct Word<8> { typedef uint2 type; };
template <> struct Word<16> { typedef uint4 type; };

template <int N, class T> DEVICE Pack<T, N> load_pack(const T *p) {
  typedef Pack<T, N> P;
  return BITS_AS(P, *(const typename Word<sizeof(P)>::type *)p);
}
template <int N, class T> DEVICE void store_pack(T *p, Pack<T, N> x) {
  typedef typename Word<sizeof(x)>::type W;
  *(W *)p = BITS_AS(W, x);
}
template <int N, class T> DEVICE bool aligned(const T *p) { return (u64)p % (sizeof(T) * N) == 0; }

// PACKS loops over the first elements i of the whole packs of N elements below n. wide says whether packs are aligned. SINGLES loops over
// the remaining elements.
#define PACKED(n, N, wide) ((N) > 1 && (wide) ? (n) / (N) * (N) : 0)
#define PACKS(i, n, N, wide) \
  for (u64 i = grid_index() * (N), end_ = PACKED(n, N, wide); i < end_; i += grid_threads() * (N))
#define SINGLES(i, n, N, wide) for (u64 i = PACKED(n, N, wide) + grid_index(); i < (n); i += grid_threads())

// unary computes out[i] = F::of(a[i], more...). out may be a.
template <class F, class T, class R, int N = PACK<T>, class... More> DEVICE void unary(const T *a, R *out, u64 n, More... more) {
  typedef typename Wide<T>::type W;
  const bool wide = aligned<N>(a) && aligned<N>(out);
  PACKS(i, n, N, wide) {
    const Pack<T, N> x = load_pack<N>(a + i);
    Pack<R, N> y;
#pragma unroll
    for (int k = 0; k < N; k++) y.v[k] = R(F::of((W)x.v[k], more...));
    store_pack<N>(out + i, y);
  }
  SINGLES(i, n, N, wide) out[i] = R(F::of((W)a[i], more...));
}

// costly is unary for functions of many instructions. It contains their code only once.
template <class F, class T> DEVICE void costly(const T *a, T *out, u64 n) {
  constexpr int N = PACK<T>;
  if constexpr (N == 1) return unary<F, T, T, 1>(a, out, n);
  const bool wide = aligned<N>(a) && aligned<N>(out);
  for (u64 i = grid_index() * N; i < n; i += grid_threads() * N) {
    const u64 end = min(i + N, n);
    const bool whole = wide && i + N == end;
    Pack<T, N> x;
    if (whole) x = load_pack<N>(a + i);
#pragma unroll 1
    for (u64 k = i; k < end; k++) {
      const T y = T(F::of((typename Wide<T>::type)(whole ? x.v[0] : a[k])));
      if (!whole) out[k] = y;
      // Rotate the pack instead of indexing it, since registers cannot be indexed.
#pragma unroll
      for (int j = 0; j + 1 < N; j++) x.v[j] = x.v[j + 1];
      x.v[N - 1] = y;
    }
    if (whole) store_pack<N>(out + i, x);
  }
}

// zip computes out[i] = F::of(a[i], b[i], more...). out may be a or b.
template <class F, class T, int N = PACK<T>, class... More> DEVICE void zip(const T *a, const T *b, T *out, u64 n, More... more) {
  typedef typename Wide<T>::type W;
  const bool wide = aligned<N>(a) && aligned<N>(b) && aligned<N>(out);
  PACKS(i, n, N, wide) {
    const Pack<T, N> x = load_pack<N>(a + i), y = load_pack<N>(b + i);
    Pack<T, N> z;
#pragma unroll
    for (int k = 0; k < N; k++) z.v[k] = T(F::of((W)x.v[k], (W)y.v[k], more...));
    store_pack<N>(out + i, z);
  }
  SINGLES(i, n, N, wide) out[i] = T(F::of((W)a[i], (W)b[i], more...));
}

// FUNCTION1(Name, expression in x) and FUNCTION2, in x and y, of the computing type T.
#define FUNCTION1(Name, ...) struct Name { template <class T> DEVICE auto of(T x) { return __VA_ARGS__; } };
#define FUNCTION2(Name, ...) struct Name { template <class T> DEVICE auto of(T x, T y) { return __VA_ARGS__; } };

// FLOATS(MACRO, arguments...) expands MACRO(arguments..., suffix, type) for each type; the others likewise.
// UNSIGNED also serves the signed integers if their bits give the same result.
#define FLOATS(M, ...) M(__VA_ARGS__, f32, float) M(__VA_ARGS__, f64, double) HALVES(M, __VA_ARGS__)
#define HALVES(M, ...) M(__VA_ARGS__, f16, half) M(__VA_ARGS__, bf16, bfloat16)
#define SIGNED(M, ...) M(__VA_ARGS__, i8, i8) M(__VA_ARGS__, i16, i16) M(__VA_ARGS__, i32, i32) M(__VA_ARGS__, i64, i64)
#define UNSIGNED(M, ...) M(__VA_ARGS__, u8, u8) M(__VA_ARGS__, u16, u16) M(__VA_ARGS__, u32, u32) M(__VA_ARGS__, u64, u64)

// UNARY is for functions of few instructions, COSTLY for frequent ones of many, SINGLE1 for others.
#define UNARY(name, F, suffix, T) KERNEL(name##_##suffix)(const T *a, T *out, u64 n) { unary<F, T, T>(a, out, n); }
#define COSTLY(name, F, suffix, T) KERNEL(name##_##suffix)(const T *a, T *out, u64 n) { costly<F>(a, out, n); }
#define SINGLE1(name, F, suffix, T) KERNEL(name##_##suffix)(const T *a, T *out, u64 n) { unary<F, T, T, 1>(a, out, n); }
#define TEST(name, F, suffix, T) KERNEL(name##_##suffix)(const T *a, bool *out, u64 n) { unary<F, T, bool>(a, out, n); }
#define SINGLE2(name, F, suffix, T) KERNEL(name##_##suffix)(const T *a, const T *b, T *out, u64 n) { zip<F, T, 1>(a, b, out, n); }
#define ZIP(name, F, suffix, T) KERNEL(name##_##suffix)(const T *a, const T *b, T *out, u64 n) { zip<F>(a, b, out, n); }
