// Arithmetic of two operands.
#include "broadcast.cuh"

FUNCTION2(Add, T(x + y))
FUNCTION2(Sub, T(x - y))
FUNCTION2(Mul, T(x * y))
FUNCTION2(Div, x / y)
FUNCTION2(FloorDiv, floor(x / y))
FUNCTION2(SquaredDifference, T(T(x - y) * T(x - y)))
FUNCTION2(Maximum, x > y || x != x ? x : y) // if either is NaN, the result is NaN
FUNCTION2(Minimum, x < y || x != x ? x : y)
FUNCTION2(MulNoNan, y == 0 ? 0 : x * y)
FUNCTION2(DivNoNan, y == 0 ? 0 : x / y)
FUNCTION2(Xdivy, x == 0 ? 0 : x / y)
FUNCTION2(Xlogy, x == 0 ? 0 : x * log(y))
FUNCTION2(Xlog1py, x == 0 ? 0 : x * log1p(y))
FUNCTION2(Mod, fmod(x, y))
FUNCTION2(Pow, pow(x, y))
FUNCTION2(Atan2, atan2(x, y))
FUNCTION2(NextAfter, nextafter(x, y))

// FloorMod has the sign of the divisor.
struct FloorMod {
  template <class T> DEVICE T of(T x, T y) {
    const T m = fmod(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
  }
};

FLOATS(BINARY, add, Add)
FLOATS(BINARY, sub, Sub)
FLOATS(BINARY, mul, Mul)
FLOATS(BINARY, div, Div)
FLOATS(BINARY, maximum, Maximum)
FLOATS(BINARY, minimum, Minimum)
FLOATS(BINARY, squareddifference, SquaredDifference)
FLOATS(SINGLE, floordiv, FloorDiv)
FLOATS(SINGLE, floormod, FloorMod)
FLOATS(SINGLE, mod, Mod)
FLOATS(SINGLE, mulnonan, MulNoNan)
FLOATS(SINGLE, divnonan, DivNoNan)
FLOATS(SINGLE, xdivy, Xdivy)
FLOATS(SINGLE, xlogy, Xlogy)
FLOATS(SINGLE, xlog1py, Xlog1py)
FLOATS(SINGLE, pow, Pow)
FLOATS(SINGLE, atan2, Atan2)
SINGLE(nextafter, NextAfter, f32, float)
SINGLE(nextafter, NextAfter, f64, double)
