// Updates of all elements of a variable.
#include "troupe.cuh"

template <class T> struct Add { __device__ static T apply(T a, T b) { return a + b; } };
template <class T> struct Sub { __device__ static T apply(T a, T b) { return a - b; } };

// update sets out to the result of Op on old and value, 16 bytes at once if all are aligned for that. out may be old or value.
template <template <class> class Op, class T> DEVICE void update(T *out, const T *old, const T *value, u64 n) {
  typedef typename Wide<T>::type W;
  constexpr int width = 16 / sizeof(T);
  struct alignas(16) Pack { T v[width]; };
  u64 packs = ((u64)out | (u64)old | (u64)value) % 16 == 0 ? n / width : 0;
  GRID_LOOP(i, packs) {
    Pack a = ((const Pack *)old)[i], b = ((const Pack *)value)[i];
#pragma unroll
    for (int j = 0; j < width; j++) a.v[j] = T(Op<W>::apply(W(a.v[j]), W(b.v[j])));
    ((Pack *)out)[i] = a;
  }
  GRID_LOOP(rest, n - packs * width) {
    u64 i = packs * width + rest;
    out[i] = T(Op<W>::apply(W(old[i]), W(value[i])));
  }
}

#define UPDATE(name, Op, suffix, T) \
  KERNEL(update_##name##_##suffix)(T *out, const T *old, const T *value, u64 n) { update<Op>(out, old, value, n); }
#define UPDATES(suffix, T) UPDATE(add, Add, suffix, T) UPDATE(sub, Sub, suffix, T)
UPDATES(f32, float)
UPDATES(f64, double)
UPDATES(f16, half)
UPDATES(bf16, bfloat16)
UPDATES(u8, u8)
UPDATES(u16, u16)
UPDATES(u32, u32)
UPDATES(u64, u64)

// find_anomalies sets bits of *found: 1 for NaN, 2 for positive infinity, 4 for negative infinity.
template <class T> DEVICE void find_anomalies(const T *x, u64 n, u32 *found) {
  u32 seen = 0;
  GRID_LOOP(i, n) {
    typename Wide<T>::type v = x[i];
    if (v - v == 0) continue;
    seen |= v != v ? 1 : v > 0 ? 2 : 4;
  }
  if (seen) atomicOr(found, seen);
}
KERNEL(find_anomalies_f32)(const float *x, u64 n, u32 *found) { find_anomalies(x, n, found); }
KERNEL(find_anomalies_f64)(const double *x, u64 n, u32 *found) { find_anomalies(x, n, found); }
KERNEL(find_anomalies_f16)(const half *x, u64 n, u32 *found) { find_anomalies(x, n, found); }
KERNEL(find_anomalies_bf16)(const bfloat16 *x, u64 n, u32 *found) { find_anomalies(x, n, found); }
