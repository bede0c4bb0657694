// Functions of cards that C++ lacks.
#include "fake_kernel.h"

// half_bits rounds to nearest even, like cvt.rn.f16.f32; a NaN becomes 0x7fff.
u16 half_bits(float f) {
  u32 b = __builtin_bit_cast(u32, f), magnitude = b & 0x7fffffff;
  u16 sign = b >> 16 & 0x8000;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 65536 and more
  if (magnitude < 0x38800000)  // subnormal: adding 0.5 leaves the mantissa in units of 2^-24
    return sign | (u16)__builtin_bit_cast(u32, __builtin_bit_cast(float, magnitude) + 0.5f);
  return sign | (u16)((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

float half_value(u16 h) {
  u32 sign = (u32)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000 | mantissa << 13);
  if (exponent) return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | mantissa << 13);
  float f = (float)mantissa / (1 << 24);
  return sign ? -f : f;
}

// erfinv starts from Winitzki's approximation, which Halley's steps make exact.
double erfinv(double x) {
  if (!(fabs(x) < 1)) return fabs(x) == 1 ? copysign(INFINITY, x) : NAN;
  double l = log1p(-x * x), c = 2 / (M_PI * 0.147) + l / 2;
  double y = copysign(sqrt(sqrt(c * c - l / 0.147) - c), x);
  for (int i = 0; i < 3; i++) {
    double error = fabs(x) < 0.5 ? erf(y) - x : copysign(1, x) * ((1 - fabs(x)) - erfc(fabs(y)));
    double u = error / (M_2_SQRTPI * exp(-y * y));
    y -= u / (1 + y * u);
  }
  return y;
}
