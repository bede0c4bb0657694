// Unary functions of many instructions.
#include "elementwise.cuh"

FUNCTION1(Exp, exp(x))
FUNCTION1(Expm1, expm1(x))
FUNCTION1(Log, log(x))
FUNCTION1(Log1p, log1p(x))
FUNCTION1(Sin, sin(x))
FUNCTION1(Cos, cos(x))
FUNCTION1(Tan, tan(x))
FUNCTION1(Asin, asin(x))
FUNCTION1(Acos, acos(x))
FUNCTION1(Atan, atan(x))
FUNCTION1(Sinh, sinh(x))
FUNCTION1(Cosh, cosh(x))
FUNCTION1(Tanh, tanh(x))
FUNCTION1(Asinh, asinh(x))
FUNCTION1(Acosh, acosh(x))
FUNCTION1(Atanh, atanh(x))
FUNCTION1(Sigmoid, T(1) / (T(1) + exp(-x)))
FUNCTION1(Erf, erf(x))
FUNCTION1(Erfc, erfc(x))
FUNCTION1(Erfinv, erfinv(x))
FUNCTION1(Lgamma, lgamma(x))

// digamma reflects x to positive arguments and shifts it to where the asymptotic series converges.
DEVICE double digamma(double x) {
  const double pi = 3.14159265358979323846;
  if (isinf(x) && x > 0) return x;
  if (x != x || isinf(x) || (x <= 0 && x == floor(x))) return __builtin_nan("");
  double reflected = 0, shift = 0;
  if (x < 0) {
    reflected = pi / tan(pi * x);
    x = 1 - x;
  }
  for (; x < 10; x++) shift += 1 / x;
  double r = 1 / (x * x);
  double series = r * (1.0 / 12 - r * (1.0 / 120 - r * (1.0 / 252 - r * (1.0 / 240 - r * (1.0 / 132 - r * (691.0 / 32760 - r / 12))))));
  return log(x) - 0.5 / x - series - shift - reflected;
}
FUNCTION1(Digamma, T(digamma(x)))

FLOATS(COSTLY, exp, Exp)
FLOATS(SINGLE1, expm1, Expm1)
FLOATS(COSTLY, log, Log)
FLOATS(SINGLE1, log1p, Log1p)
FLOATS(SINGLE1, sin, Sin)
FLOATS(SINGLE1, cos, Cos)
FLOATS(SINGLE1, tan, Tan)
FLOATS(SINGLE1, asin, Asin)
FLOATS(SINGLE1, acos, Acos)
FLOATS(SINGLE1, atan, Atan)
FLOATS(SINGLE1, sinh, Sinh)
FLOATS(SINGLE1, cosh, Cosh)
FLOATS(COSTLY, tanh, Tanh)
FLOATS(SINGLE1, asinh, Asinh)
FLOATS(SINGLE1, acosh, Acosh)
FLOATS(SINGLE1, atanh, Atanh)
FLOATS(COSTLY, sigmoid, Sigmoid)
FLOATS(COSTLY, erf, Erf)
FLOATS(SINGLE1, erfc, Erfc)
FLOATS(SINGLE1, erfinv, Erfinv)
FLOATS(SINGLE1, lgamma, Lgamma)
FLOATS(SINGLE1, digamma, Digamma)
