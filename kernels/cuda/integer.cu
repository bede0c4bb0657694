// Arithmetic of two integers. Overflow wraps. No errors are reported, as on TensorFlow's GPUs: a quotient by zero is -1 or, for unsigned
// types, all ones; a remainder by zero is the dividend; a negative power is 0, except of 1 and -1.
#include "broadcast.cuh"

FUNCTION2(Add, T(x + y))
FUNCTION2(Sub, T(x - y))
FUNCTION2(Mul, T(x * y))
FUNCTION2(SquaredDifference, T(T(x - y) * T(x - y)))
FUNCTION2(Maximum, x > y ? x : y)
FUNCTION2(Minimum, x < y ? x : y)
FUNCTION2(And, T(x & y))
FUNCTION2(Or, T(x | y))
FUNCTION2(Xor, T(x ^ y))
FUNCTION2(LogicalAnd, x && y)
FUNCTION2(LogicalOr, x || y)

// quotient rounds towards zero. The least number divided by -1 is itself.
template <class T> DEVICE T quotient(T x, T y) {
  if (y == 0) return T(-1);
  if (T(-1) < T(0) && y == T(-1)) return T(0 - (u64)x);
  return x / y;
}
template <class T> DEVICE T remainder(T x, T y) { return T((u64)x - (u64)quotient(x, y) * (u64)y); }

FUNCTION2(Div, quotient(x, y))
FUNCTION2(Mod, y == 0 ? x : remainder(x, y))
struct FloorDiv {
  template <class T> DEVICE T of(T x, T y) {
    const T q = quotient(x, y);
    return T((u64)q * (u64)y) != x && (x < 0) != (y < 0) ? T(q - 1) : q;
  }
};
struct FloorMod {
  template <class T> DEVICE T of(T x, T y) {
    const T m = Mod::of(x, y);
    return m != 0 && (m < 0) != (y < 0) ? T(m + y) : m;
  }
};
struct Pow {
  template <class T> DEVICE T of(T x, T y) {
    if (y < 0) return x == 1 ? T(1) : x == T(-1) ? (y & 1 ? x : T(1)) : T(0);
    u64 result = 1, base = (u64)x;
    for (; y > 0; y >>= 1) {
      if (y & 1) result *= base;
      base *= base;
    }
    return T(result);
  }
};

// shift_count limits a shift to the range from 0 to the number of bits less one.
template <class T> DEVICE u32 shift_count(T y) {
  constexpr u32 most = 8 * sizeof(T) - 1;
  return y < 0 ? 0 : (u64)y > most ? most : (u32)y;
}
FUNCTION2(ShiftLeft, T((u64)x << shift_count(y)))
FUNCTION2(ShiftRight, T(x >> shift_count(y)))

// There is no i32, which the host computes.
#define DIVIDED(M, ...) M(__VA_ARGS__, i8, i8) M(__VA_ARGS__, i16, i16) M(__VA_ARGS__, i64, i64) M(__VA_ARGS__, u8, u8) M(__VA_ARGS__, u16, u16)
#define INTEGERS(M, ...) M(__VA_ARGS__, i8, i8) M(__VA_ARGS__, i16, i16) M(__VA_ARGS__, i64, i64) UNSIGNED(M, __VA_ARGS__)

UNSIGNED(SINGLE, add, Add)
UNSIGNED(SINGLE, sub, Sub)
UNSIGNED(SINGLE, mul, Mul)
UNSIGNED(SINGLE, squareddifference, SquaredDifference)
INTEGERS(SINGLE, maximum, Maximum)
INTEGERS(SINGLE, minimum, Minimum)
DIVIDED(SINGLE, div, Div)
DIVIDED(SINGLE, mod, Mod)
DIVIDED(SINGLE, floordiv, FloorDiv)
DIVIDED(SINGLE, floormod, FloorMod)
SINGLE(pow, Pow, i64, i64)
UNSIGNED(SINGLE, bitwiseand, And)
UNSIGNED(SINGLE, bitwiseor, Or)
UNSIGNED(SINGLE, bitwisexor, Xor)
UNSIGNED(SINGLE, leftshift, ShiftLeft)
SIGNED(SINGLE, leftshift, ShiftLeft)
UNSIGNED(SINGLE, rightshift, ShiftRight)
SIGNED(SINGLE, rightshift, ShiftRight)
BINARY(logicaland, LogicalAnd, b, bool)
BINARY(logicalor, LogicalOr, b, bool)
