// Conversions between types. Floats are truncated to integers. One that does not fit becomes the least integer, as a processor's conversion
// to 32 or 64 bits yields on CPUs. Integers narrower than that get its low bits, and u32 gets those of the 64-bit result. Halves are
// converted by way of floats.
#include "elementwise.cuh"

template <class T> struct Complex { T real, imag; };
typedef Complex<float> complex64;
typedef Complex<double> complex128;

template <class T> constexpr bool FLOATING = false;
template <> constexpr bool FLOATING<float> = true;
template <> constexpr bool FLOATING<double> = true;
template <class T> constexpr bool COMPLEX = false;
template <class T> constexpr bool COMPLEX<Complex<T>> = true;
template <class A, class B> constexpr bool SAME = false;
template <class A> constexpr bool SAME<A, A> = true;
template <class T> constexpr bool HALF = SAME<T, half> || SAME<T, bfloat16>;

// to_int64 and the others truncate a float.
template <class F> DEVICE i64 to_int64(F x) { return x >= F(-0x1p63) && x < F(0x1p63) ? (i64)x : (i64)(1ull << 63); }
template <class F> DEVICE i32 to_int32(F x) {
  return (double)x > -0x1p31 - 1 && (double)x < 0x1p31 ? (i32)x : (i32)(1u << 31);
}
template <class F> DEVICE u64 to_uint64(F x) {
  return x >= F(0x1p63) && x < F(0x1p64) ? (u64)(i64)(x - F(0x1p63)) | 1ull << 63 : (u64)to_int64(x);
}

template <class D, class S> DEVICE D cast(S x) {
  if constexpr (HALF<S>) return cast<D>((float)x);
  else if constexpr (HALF<D>) return D(cast<float>(x));
  else if constexpr (COMPLEX<S> && COMPLEX<D>) {
    D d;
    d.real = x.real;
    d.imag = x.imag;
    return d;
  } else if constexpr (COMPLEX<S>) return cast<D>(x.real);
  else if constexpr (COMPLEX<D>) {
    D d;
    d.real = x;
    d.imag = 0;
    return d;
  } else if constexpr (SAME<D, bool>) return x != 0;
  else if constexpr (FLOATING<S> && !FLOATING<D>) {
    if constexpr (SAME<D, u64>) return to_uint64(x);
    else if constexpr (SAME<D, i64> || SAME<D, u32>) return D(to_int64(x));
    else return D(to_int32(x));
  } else return D(x);
}

// cut clears the low bits of a float's fraction, or of both parts of a complex number. NaNs stay as they are, since one without its low bits may be
// an infinity.
template <class T> DEVICE T cut(T x, u32 bits) {
  if constexpr (COMPLEX<T>) {
    x.real = cut(x.real, bits);
    x.imag = cut(x.imag, bits);
  } else if constexpr (SAME<T, double>) return x != x ? x : BITS_AS(double, BITS_AS(u64, x) >> bits << bits);
  else if constexpr (SAME<T, float>) return x != x ? x : BITS_AS(float, BITS_AS(u32, x) >> bits << bits);
  else if constexpr (HALF<T>) {
    const float f = (float)x;
    if (f == f) x.bits = x.bits >> bits << bits;
  }
  return x;
}

// cast_from_* clears bits, then casts to the type with the given number, as numbered in Go. All threads take the same branch, so it costs
// little compared with the memory accesses.
#define TO(number, D) case number: ((D *)out)[i] = cast<D>(x); break;
#define CAST_FROM(suffix, S)                                                                        \
  KERNEL(cast_from_##suffix)(const S *a, u8 *out, u64 n, u64 to, u64 clear) {                        \
    GRID_LOOP(i, n) {                                                                               \
      const S x = cut(a[i], clear);                                                                 \
      switch (to) {                                                                                 \
        TO(0, float) TO(1, double) TO(2, half) TO(3, bfloat16) TO(4, i8) TO(5, i16) TO(6, i32) TO(7, i64) \
        TO(8, u8) TO(9, u16) TO(10, u32) TO(11, u64) TO(12, bool) TO(13, complex64) TO(14, complex128)    \
      }                                                                                             \
    }                                                                                               \
  }
CAST_FROM(f32, float)
CAST_FROM(f64, double)
CAST_FROM(f16, half)
CAST_FROM(bf16, bfloat16)
CAST_FROM(i8, i8)
CAST_FROM(i16, i16)
CAST_FROM(i32, i32)
CAST_FROM(i64, i64)
CAST_FROM(u8, u8)
CAST_FROM(u16, u16)
CAST_FROM(u32, u32)
CAST_FROM(u64, u64)
CAST_FROM(b, bool)
CAST_FROM(c64, complex64)
CAST_FROM(c128, complex128)

// The casts that steps apply to large data have kernels of their own, which move packs.
template <class D, class S> DEVICE void cast_all(const S *a, D *out, u64 n) {
  constexpr int N = sizeof(S) > 4 || sizeof(D) > 4 ? 2 : sizeof(S) > 2 || sizeof(D) > 2 ? 4 : 8;
  const bool wide = aligned<N>(a) && aligned<N>(out);
  PACKS(i, n, N, wide) {
    const Pack<S, N> x = load_pack<N>(a + i);
    Pack<D, N> y;
#pragma unroll
    for (int k = 0; k < N; k++) y.v[k] = cast<D>(x.v[k]);
    store_pack<N>(out + i, y);
  }
  SINGLES(i, n, N, wide) out[i] = cast<D>(a[i]);
}
#define CAST(from, S, to, D) KERNEL(cast_##from##_##to)(const S *a, D *out, u64 n) { cast_all(a, out, n); }
#define CAST_TO(from, S) CAST(from, S, f32, float) CAST(from, S, f16, half) CAST(from, S, bf16, bfloat16)
CAST(f32, float, f16, half)
CAST(f32, float, bf16, bfloat16)
CAST(f32, float, f64, double)
CAST(f32, float, i32, i32)
CAST(f32, float, i64, i64)
CAST(f32, float, b, bool)
CAST(f64, double, f32, float)
CAST(f16, half, f32, float)
CAST(bf16, bfloat16, f32, float)
CAST_TO(b, bool)
CAST_TO(u8, u8)
CAST_TO(i32, i32)
CAST_TO(i64, i64)
CAST(i32, i32, i64, i64)
CAST(i64, i64, i32, i32)
CAST(b, bool, i32, i32)
