// Ops that select, clip, add or repeat elements.
#include "broadcast.cuh"

// u128 stands for any element of 16 bytes.
struct alignas(16) u128 { u64 low, high; };

// select_* takes a where the condition holds, otherwise b. All three are broadcast.
template <class T, int N> DEVICE void choose(const bool *c, const T *a, const T *b, T *out, u32 n, u32 wide, u32 rank, const Axes &axes) {
  u32 at[3];
  PACKS(i, n, N, wide) {
    locate<3>(axes, rank, i, at);
    const Pack<bool, N> p = take<N>(c, at[0], axes.axis[0].stride[0]);
    const Pack<T, N> x = take<N>(a, at[1], axes.axis[0].stride[1]), y = take<N>(b, at[2], axes.axis[0].stride[2]);
    Pack<T, N> z;
#pragma unroll
    for (int k = 0; k < N; k++) z.v[k] = p.v[k] ? x.v[k] : y.v[k];
    store_pack<N>(out + i, z);
  }
  SINGLES(i, n, N, wide) {
    locate<3>(axes, rank, i, at);
    out[i] = c[at[0]] ? a[at[1]] : b[at[2]];
  }
}
#define SELECT(suffix, T, N)                                                                                       \
  KERNEL(select_##suffix)(const bool *c, const T *a, const T *b, T *out, u64 n, u64 wide, u64 rank, const Axes axes) { \
    choose<T, N>(c, a, b, out, n, wide, rank, axes);                                                               \
  }
SELECT(u8, u8, 1)
SELECT(u16, u16, 4)
SELECT(u32, u32, 4)
SELECT(u64, u64, 1)
SELECT(u128, u128, 1)

// clip_*: a bound's step is 0 if it is a scalar, otherwise 1.
#define CLIP(suffix, T)                                                                                            \
  KERNEL(clip_##suffix)(const T *a, const T *least, const T *most, T *out, u64 n, u64 least_step, u64 most_step) { \
    typedef typename Wide<T>::type W;                                                                              \
    GRID_LOOP(i, n) {                                                                                              \
      const W x = a[i], lo = least[i * least_step], hi = most[i * most_step];                                      \
      const W y = hi < x ? hi : x;                                                                                 \
      out[i] = T(y < lo ? lo : y); /* the lower bound where they cross */                                          \
    }                                                                                                              \
  }
CLIP(f32, float)
CLIP(f64, double)
CLIP(f16, half)
CLIP(bf16, bfloat16)
CLIP(i8, i8)
CLIP(i16, i16)
CLIP(i64, i64)
CLIP(u8, u8)
CLIP(u16, u16)

// addn_* adds up to 8 tensors. out may be one of them.
struct Terms { u64 address[8]; };
template <class T> DEVICE void add_all(const Terms &terms, u32 count, T *out, u64 n) {
  constexpr int N = PACK<T>;
  typedef typename Wide<T>::type W;
  bool wide = aligned<N>(out);
#pragma unroll 1
  for (u32 t = 0; t < count; t++) wide = wide && aligned<N>((const T *)terms.address[t]);
  PACKS(i, n, N, wide) {
    W sum[N] = {};
#pragma unroll 1
    for (u32 t = 0; t < count; t++) {
      const Pack<T, N> x = load_pack<N>((const T *)terms.address[t] + i);
#pragma unroll
      for (int k = 0; k < N; k++) sum[k] += (W)x.v[k];
    }
    Pack<T, N> y;
#pragma unroll
    for (int k = 0; k < N; k++) y.v[k] = T(sum[k]);
    store_pack<N>(out + i, y);
  }
  SINGLES(i, n, N, wide) {
    W sum = 0;
#pragma unroll 1
    for (u32 t = 0; t < count; t++) sum += (W)((const T *)terms.address[t])[i];
    out[i] = T(sum);
  }
}
#define ADDN(name, F, suffix, T) KERNEL(name##_##suffix)(const Terms terms, u64 count, T *out, u64 n) { add_all(terms, count, out, n); }
FLOATS(ADDN, addn, )
UNSIGNED(ADDN, addn, )

// fill_* repeats the element at from or, if that is null, the value. high is the upper half of a 16-byte element.
template <class T> DEVICE T element(u64 low, u64 high) {
  if constexpr (sizeof(T) == 16) return T{low, high};
  else return T(low);
}
#define FILL(suffix, T, N)                                                          \
  KERNEL(fill_##suffix)(const T *from, u64 low, u64 high, T *out, u64 n) {          \
    const T value = from ? *from : element<T>(low, high);                           \
    Pack<T, N> pack;                                                                \
    for (int k = 0; k < N; k++) pack.v[k] = value;                                  \
    PACKS(i, n, N, aligned<N>(out)) store_pack<N>(out + i, pack);                   \
    SINGLES(i, n, N, aligned<N>(out)) out[i] = value;                               \
  }
FILL(u8, u8, 8)
FILL(u16, u16, 4)
FILL(u32, u32, 4)
FILL(u64, u64, 2)
FILL(u128, u128, 1)
