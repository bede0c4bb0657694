// Random numbers, the same as those of the CPU's kernels for the same seeds. Each group of numbers has a fixed position in the generator's
// sequence, so a number does not depend on how the work is divided. Logarithms, sines and cosines are computed in double and rounded, as on
// the CPU, since rejections depend on them.
#include "elementwise.cuh"

// Philox is the generator Philox 4x32-10 of "Parallel Random Numbers: As Easy as 1, 2, 3": an encrypted counter of 128 bits.
struct Philox { u64 low, high, key; };

DEVICE uint4 numbers(const Philox &p, u64 skip) {
  const u64 low = p.low + skip, high = p.high + (low < skip);
  u32 c0 = low, c1 = low >> 32, c2 = high, c3 = high >> 32, k0 = p.key, k1 = p.key >> 32;
#pragma unroll
  for (int round = 0; round < 10; round++) {
    const u64 a = (u64)c0 * 0xD2511F53u, b = (u64)c2 * 0xCD9E8D57u;
    c0 = (u32)(b >> 32) ^ c1 ^ k0;
    c1 = b;
    c2 = (u32)(a >> 32) ^ c3 ^ k1;
    c3 = a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return uint4{c0, c1, c2, c3};
}

// unit returns a number in [0,1), whose fraction consists of random bits.
DEVICE float unit(u32 x) { return BITS_AS(float, 127u << 23 | (x & 0x7fffff)) - 1; }
DEVICE double unit(u32 x0, u32 x1) { return BITS_AS(double, 1023ull << 52 | (u64)(x0 & 0xfffff) << 32 | x1) - 1; }

// sine_and_cosine reduces numbers in [0, 2*pi) to at most pi/4 from a multiple of pi/2 for the series. It omits the code paths for large
// numbers.
DEVICE double2 sine_and_cosine(double x) {
  const double turns = rint(x * 0.63661977236758134308);
  double r = fma(turns, -1.5707963267948965580, x);
  r = fma(turns, -6.1232339957367658860e-17, r);
  const double q = -r * r;
  double s = 1, c = 1;
#pragma unroll
  for (int k = 16; k >= 2; k -= 2) {
    s = fma(s, q * (1.0 / (k * (k + 1))), 1.0);
    c = fma(c, q * (1.0 / (k * (k - 1))), 1.0);
  }
  s *= r;
  const int quarter = (int)turns;
  const double sine = quarter & 1 ? c : s, cosine = quarter & 1 ? s : c;
  return double2{quarter & 2 ? -sine : sine, (quarter + 1) & 2 ? -cosine : cosine};
}

// normal_pair returns two normally distributed numbers, by the Box-Muller transform.
constexpr double two_pi = 6.283185307179586476925286766559;
DEVICE float2 normal_pair(u32 x0, u32 x1) {
  const float u1 = max(unit(x0), 1.0e-7f), v1 = (float)(two_pi * (double)unit(x1));
  const float u2 = sqrt(-2 * (float)log((double)u1));
  const double2 at = sine_and_cosine(v1);
  return float2{(float)at.x * u2, (float)at.y * u2};
}
DEVICE double2 normal_pair(u32 x0, u32 x1, u32 x2, u32 x3) {
  const double u1 = max(unit(x0, x1), 1.0e-7), u2 = sqrt(-2 * log(u1));
  const double2 at = sine_and_cosine(two_pi * unit(x2, x3));
  return double2{at.x * u2, at.y * u2};
}

// A distribution produces groups of numbers: 16 bytes for 4-byte and 8-byte types, 4 numbers for halves.
template <class T> constexpr int GROUP = sizeof(T) == 8 ? 2 : 4;

struct Uniform {
  DEVICE void of(uint4 x, float *y) { y[0] = unit(x.x), y[1] = unit(x.y), y[2] = unit(x.z), y[3] = unit(x.w); }
  DEVICE void of(uint4 x, double *y) { y[0] = unit(x.x, x.y), y[1] = unit(x.z, x.w); }
  DEVICE half few(u32 x, half h) {
    h.bits = 15 << 10 | (x & 0x3ff);
    return half((float)h - 1);
  }
  DEVICE bfloat16 few(u32 x, bfloat16 h) {
    h.bits = 127 << 7 | (x & 0x7f);
    return bfloat16((float)h - 1);
  }
  template <class H> DEVICE void of(uint4 x, H *y) {
    y[0] = few(x.x, H()), y[1] = few(x.y, H()), y[2] = few(x.z, H()), y[3] = few(x.w, H());
  }
};

struct Normal {
  DEVICE void of(uint4 x, double *y) {
    const double2 p = normal_pair(x.x, x.y, x.z, x.w);
    y[0] = p.x, y[1] = p.y;
  }
  template <class T> DEVICE void of(uint4 x, T *y) {
#pragma unroll 1
    for (int pair = 0; pair < 2; pair++) { // rotate instead of indexing, since registers cannot be indexed
      const float2 p = normal_pair(x.x, x.y);
      x.x = x.z, x.y = x.w;
      y[0] = y[2], y[1] = y[3];
      y[2] = T(p.x), y[3] = T(p.y);
    }
  }
};

// Any is uniform over all values. Between is uniform over span values from low, with the slight bias of a remainder.
struct Any {
  DEVICE void of(uint4 x, u32 *y) { y[0] = x.x, y[1] = x.y, y[2] = x.z, y[3] = x.w; }
  DEVICE void of(uint4 x, u64 *y) { y[0] = x.x | (u64)x.y << 32, y[1] = x.z | (u64)x.w << 32; }
};
struct Between {
  template <class T> DEVICE void of(uint4 x, T *y, u64 low, u64 span) {
    Any::of(x, y);
#pragma unroll
    for (int k = 0; k < GROUP<T>; k++) y[k] = (T)low + y[k] % (T)span;
  }
};

template <class D, class T, class... More> DEVICE void draw(const Philox &p, T *out, u64 n, More... more) {
  constexpr int N = GROUP<T>;
  const bool wide = aligned<N>(out);
  GRID_LOOP(g, (n + N - 1) / N) {
    Pack<T, N> y;
    D::of(numbers(p, g), y.v, more...);
    const u64 i = g * N;
    if (wide && i + N <= n) {
      store_pack<N>(out + i, y);
    } else {
#pragma unroll
      for (int k = 0; k < N; k++)
        if (i + k < n) out[i + k] = y.v[k];
    }
  }
}

// draw_truncated draws from the normal distribution without values two or more standard deviations from the mean. Groups take a variable
// number of random numbers, so each has its own region of the sequence.
template <class T> DEVICE void draw_truncated(const Philox &p, T *out, u64 n) {
  constexpr int N = GROUP<T>;
  GRID_LOOP(g, (n + N - 1) / N) {
    const u64 first = g * N, end = min(first + N, n);
    u64 i = first, at = g * N * (256 / 4);
#pragma unroll 1
    while (i < end) {
      const uint4 x = numbers(p, at++);
      typename Wide<T>::type v[N];
      Normal::of(x, v);
#pragma unroll
      for (int k = 0; k < N; k++)
        if (i < end && v[k] > -2 && v[k] < 2) out[i++] = T(v[k]);
    }
  }
}

#define DRAW(name, D, suffix, T) KERNEL(name##_##suffix)(const Philox p, T *out, u64 n) { draw<D>(p, out, n); }
#define DRAW_BETWEEN(suffix, T) \
  KERNEL(random_between_##suffix)(const Philox p, T *out, u64 n, u64 low, u64 span) { draw<Between>(p, out, n, low, span); }
#define TRUNCATED(name, D, suffix, T) KERNEL(name##_##suffix)(const Philox p, T *out, u64 n) { draw_truncated(p, out, n); }
FLOATS(DRAW, random_uniform, Uniform)
FLOATS(DRAW, random_normal, Normal)
FLOATS(TRUNCATED, random_truncated, )
DRAW(random_any, Any, u32, u32)
DRAW(random_any, Any, u64, u64)
DRAW_BETWEEN(u32, u32)
DRAW_BETWEEN(u64, u64)
