// Updates of rows that indices name. Invalid indices are ignored. Several updates of one element apply in any order.
#include "combine.cuh"
#include "index.cuh"

// change atomically sets *p to the result of Op on it and v.
template <class Op, class T> DEVICE void change(T *p, T v) {
  typedef typename Wide<T>::type W;
  if constexpr (sizeof(T) == 8) {
    u64 *word = (u64 *)p;
    for (u64 old = *word;;) {
      u64 next = BITS_AS(u64, Op::template apply<T>(BITS_AS(T, old), v));
      u64 seen = next == old ? old : atomicCAS(word, old, next);
      if (seen == old) return;
      old = seen;
    }
  } else if constexpr (sizeof(T) == 4) {
    u32 *word = (u32 *)p;
    for (u32 old = *word;;) {
      u32 next = BITS_AS(u32, Op::template apply<T>(BITS_AS(T, old), v));
      u32 seen = next == old ? old : atomicCAS(word, old, next);
      if (seen == old) return;
      old = seen;
    }
  } else { // half types: change the aligned word that holds the element
    u32 *word = (u32 *)((u64)p & ~3ull);
    int shift = (u64)p & 2 ? 16 : 0;
    for (u32 old = *word;;) {
      T was;
      was.bits = (u16)(old >> shift);
      T is = T(Op::template apply<W>((W)was, (W)v));
      u32 next = (old & ~(0xffffu << shift)) | (u32)is.bits << shift;
      u32 seen = next == old ? old : atomicCAS(word, old, next);
      if (seen == old) return;
      old = seen;
    }
  }
}

template <class Op> struct Change {
  template <class T> __device__ __forceinline__ static void apply(T *p, T v) { change<Op>(p, v); }
};
template <> struct Change<Sum> {
  template <class T> __device__ __forceinline__ static void apply(T *p, T v) { atomicAdd(p, v); }
  __device__ __forceinline__ static void apply(half *p, half v) { atomicAdd(p, (float)v); }
  __device__ __forceinline__ static void apply(bfloat16 *p, bfloat16 v) { atomicAdd(p, (float)v); }
};
struct Set {
  template <class T> __device__ __forceinline__ static void apply(T *p, T v) { *p = v; }
};

// updates has rows of inner elements or, if step is 0, one element for all.
template <class Update, class T>
DEVICE void scatter(T *out, const void *indices, u64 kind, const Point &p, const T *updates, const Divisor &inner, u64 step, u64 count) {
  GRID_LOOP(i, count) {
    u64 row = i, k = split(row, inner);
    i64 at = point(p, indices, kind, row);
    if (at >= 0) Update::apply(out + (u64)at * inner.size + k, updates[i * step]);
  }
}

// Div leaves an integer unchanged if the divisor is zero.
struct Div {
  template <class T> __device__ __forceinline__ static T apply(T a, T b) {
    if constexpr (T(0.5) == T(0)) {
      if (b == 0) return a;
      if (b == T(-1)) return Sub::apply(T(0), a);
    }
    return a / b;
  }
};

#define SCATTER(name, Update, T)                                                                              \
  KERNEL(scatter_##name)(T *out, const void *indices, u64 kind, Point p, const T *updates, Divisor inner, u64 step, u64 count) { \
    scatter<Update>(out, indices, kind, p, updates, inner, step, count);                                      \
  }
#define SET(size) SCATTER(set_##size, Set, cell##size)
FOR_CELLS(SET)

#define CHANGES(name, Op)                        \
  SCATTER(name##_f32, Change<Op>, float)         \
  SCATTER(name##_f64, Change<Op>, double)        \
  SCATTER(name##_f16, Change<Op>, half)          \
  SCATTER(name##_bf16, Change<Op>, bfloat16)     \
  SCATTER(name##_i32, Change<Op>, i32)           \
  SCATTER(name##_i64, Change<Op>, i64)
CHANGES(add, Sum)
CHANGES(sub, Sub)
CHANGES(mul, Prod)
CHANGES(div, Div)
CHANGES(min, Min)
CHANGES(max, Max)
