// Comparisons. Greater is less with the operands swapped.
#include "broadcast.cuh"

FUNCTION2(Less, x < y)
FUNCTION2(LessEqual, x <= y)
FUNCTION2(Equal, x == y)
FUNCTION2(NotEqual, x != y)

#define ORDERED(M, ...) FLOATS(M, __VA_ARGS__) UNSIGNED(M, __VA_ARGS__) M(__VA_ARGS__, i8, i8) M(__VA_ARGS__, i16, i16) M(__VA_ARGS__, i64, i64)

ORDERED(COMPARE, less, Less)
ORDERED(COMPARE, lessequal, LessEqual)
FLOATS(COMPARE, equal, Equal)
UNSIGNED(COMPARE, equal, Equal)
COMPARE(equal, Equal, b, bool)
FLOATS(COMPARE, notequal, NotEqual)
UNSIGNED(COMPARE, notequal, NotEqual)
COMPARE(notequal, NotEqual, b, bool)
