// The operations that reductions, running results and scattered updates apply to two elements, in Wide types. Integers wrap around.
#pragma once
#include "troupe.cuh"

// Limits<T> holds the ends of a type's range, which are infinities if the type has them.
template <class T> struct Limits {
  static constexpr T most = sizeof(T) == 8 ? (T)0x7fffffffffffffffll : (T)0x7fffffff, least = -most - 1;
};
template <> struct Limits<u32> {
  static constexpr u32 most = 0xffffffff, least = 0;
};
template <> struct Limits<float> {
  static constexpr float most = __builtin_inff(), least = -__builtin_inff();
};
template <> struct Limits<double> {
  static constexpr double most = __builtin_inf(), least = -__builtin_inf();
};

// Unsigned<T>::type is a type in which arithmetic of T may wrap around.
template <class T> struct Unsigned { typedef T type; };
template <> struct Unsigned<i32> { typedef u32 type; };
template <> struct Unsigned<i64> { typedef u64 type; };

// Each has apply and identity. Sub is for updates only. The others are associative, except for rounding. NaN wins against all numbers.
#define COMBINE(name, expression, neutral)                                \
  struct name {                                                           \
    template <class T> __device__ __forceinline__ static T apply(T a, T b) { \
      [[maybe_unused]] typedef typename Unsigned<T>::type U;              \
      return expression;                                                  \
    }                                                                     \
    template <class T> __device__ __forceinline__ static T identity() { return neutral; } \
  };
COMBINE(Sum, (T)((U)a + (U)b), 0)
COMBINE(Sub, (T)((U)a - (U)b), 0)
COMBINE(Prod, (T)((U)a * (U)b), 1)
COMBINE(Min, a != a || a < b ? a : b, Limits<T>::most)
COMBINE(Max, a != a || a > b ? a : b, Limits<T>::least)
COMBINE(And, a & b, 1)
COMBINE(Or, a | b, 0)
