// Reductions of the middle of three dimensions, and the index of the extreme element along it.
#include "combine.cuh"
#include "index.cuh"

// Blocks have THREADS threads. A tile is width results, each reduced by THREADS/width threads; width is a power of 2. The sizes alone
// determine which thread adds what, so that a sum is always rounded the same way.
constexpr u64 THREADS = 256;

// Spot is a thread's position in a tile: its result, and the element that it starts with. Adjacent threads read adjacent elements: they
// share a result if its elements are contiguous (inner is 1), and have one result each otherwise.
struct Spot {
  u64 column, first, step;
  __device__ __forceinline__ Spot(u64 width, u64 inner) : step(THREADS / width) {
    column = inner == 1 ? threadIdx.x / step : threadIdx.x % width;
    first = inner == 1 ? threadIdx.x % step : threadIdx.x / width;
  }
};

// across combines the values of the threads that share a result, for the first of them. partial is shared memory for THREADS values. All
// threads must call it, and must pass a barrier before they call it again.
template <class V, class F> DEVICE V across(V v, V *partial, u64 width, u64 inner, F combine) {
  u64 step = THREADS / width;
  int from = inner == 1 ? 1 : (int)width, to = inner == 1 && step < 32 ? (int)step : 32;
#pragma unroll 1
  for (int o = from; o < to; o *= 2) v = combine(v, v.shuffled(o));
  if (inner == 1 ? step <= 32 : step == 1) return v;
  partial[threadIdx.x] = v;
  __syncthreads();
  u64 next = 32, end = THREADS;
  if (inner == 1) { // the following warps
    if (threadIdx.x % step != 0) return v;
    end = threadIdx.x + step;
  } else { // the warps with the same columns
    if (threadIdx.x >= width) return v;
    if (width > 32) next = width;
  }
#pragma unroll 1
  for (u64 t = threadIdx.x + next; t < end; t += next) v = combine(v, partial[t]);
  return v;
}

template <class T> struct Value {
  T v;
  __device__ __forceinline__ Value shuffled(int o) const { return {__shfl_xor_sync(ALL_LANES, v, o)}; }
};

struct Plain {
  template <class T> __device__ __forceinline__ static T apply(T a) { return a; }
};
struct Squared {
  template <class T> __device__ __forceinline__ static T apply(T a) { return Prod::apply(a, a); }
};

// Finish is the final operation on each result.
enum Finish { NOTHING, MEAN, ROOT, HALF };

template <class T> DEVICE T finished(T v, u64 finish, u64 elements) {
  switch (finish) {
  case MEAN:
    if (T(0.5) == T(0) && elements == 0) return 0; // integers
    return v / (T)elements;
  case ROOT: return (T)sqrt((double)v);
  case HALF: return v / 2;
  }
  return v;
}

// in is [outer, reduced, inner], out [outer, parts, inner]. Block row y of the grid reduces part y, which has per elements. outputs is
// outer*inner, and elements is the total number of elements per result.
template <class Op, class First, class Acc, class In, class Out>
DEVICE void reduce(const In *in, Out *out, u64 outputs, u64 reduced, const Divisor &inner, u64 width, u64 per, u64 finish, u64 elements) {
  __shared__ Value<Acc> partial[THREADS];
  Spot spot(width, inner.size);
  u64 first = spot.first, step = spot.step, part = blockIdx.y, from = part * per, to = min(from + per, reduced);
  for (u64 tile = (u64)blockIdx.x * width; tile < outputs; tile += (u64)gridDim.x * width) {
    u64 c = tile + spot.column, o = c, k = 0;
    Acc acc = Op::template identity<Acc>();
    if (c < outputs) {
      k = split(o, inner);
      const In *at = in + o * reduced * inner.size + k;
      u64 r = from + first;
      for (; r + 3 * step < to; r += 4 * step) { // four loads in flight
        In e[4];
        for (int j = 0; j < 4; j++) e[j] = at[(r + j * step) * inner.size];
        for (int j = 0; j < 4; j++) acc = Op::apply(acc, First::apply((Acc)e[j]));
      }
#pragma unroll 1
      for (; r < to; r += step) acc = Op::apply(acc, First::apply((Acc)at[r * inner.size]));
    }
    acc = across(Value<Acc>{acc}, partial, width, inner.size, [](Value<Acc> a, Value<Acc> b) { return Value<Acc>{Op::apply(a.v, b.v)}; }).v;
    if (first == 0 && c < outputs) out[(o * gridDim.y + part) * inner.size + k] = (Out)finished(acc, finish, elements);
    __syncthreads();
  }
}

#define REDUCE(name, Op, First, Acc, In, Out)                                                                           \
  KERNEL_OF(256, reduce_##name)(const In *in, Out *out, u64 outputs, u64 reduced, Divisor inner, u64 width, u64 per, u64 finish, u64 elements) { \
    reduce<Op, First, Acc>(in, out, outputs, reduced, inner, width, per, finish, elements);                             \
  }
#define REDUCE_FULL(name, Op, First)            \
  REDUCE(name##_f32, Op, First, float, float, float) \
  REDUCE(name##_f64, Op, First, double, double, double) \
  REDUCE(name##_f16, Op, First, float, half, half) \
  REDUCE(name##_bf16, Op, First, float, bfloat16, bfloat16) \
  REDUCE(name##_i64, Op, First, i64, i64, i64)
// Sums and products of half types stay float until the last step.
#define REDUCE_WIDENING(name, Op, First)        \
  REDUCE(name##_f16_f32, Op, First, float, half, float) \
  REDUCE(name##_bf16_f32, Op, First, float, bfloat16, float)
#define REDUCE_NARROWING(name, Op)              \
  REDUCE(name##_f32_f16, Op, Plain, float, float, half) \
  REDUCE(name##_f32_bf16, Op, Plain, float, float, bfloat16)
REDUCE_FULL(sum, Sum, Plain)
REDUCE_WIDENING(sum, Sum, Plain)
REDUCE_NARROWING(sum, Sum)
REDUCE_FULL(squares, Sum, Squared)
REDUCE_WIDENING(squares, Sum, Squared)
REDUCE_FULL(prod, Prod, Plain)
REDUCE_WIDENING(prod, Prod, Plain)
REDUCE_NARROWING(prod, Prod)
REDUCE_FULL(max, Max, Plain)
REDUCE_FULL(min, Min, Plain)
REDUCE(all_b, And, Plain, u32, u8, u8)
REDUCE(any_b, Or, Plain, u32, u8, u8)

// Best is the extreme element so far and its index, or NOWHERE before there is one. NaN is never extreme. Of equal elements, the first
// wins.
constexpr u64 NOWHERE = ~0ull;

template <class T> struct Best {
  T v;
  u64 at;
  __device__ __forceinline__ Best shuffled(int o) const { return {__shfl_xor_sync(ALL_LANES, v, o), __shfl_xor_sync(ALL_LANES, at, o)}; }
};

template <class Op, class W, class T>
DEVICE void arg(const T *in, void *out, u64 wide, u64 outputs, u64 reduced, const Divisor &inner, u64 width) {
  __shared__ Best<W> partial[THREADS];
  Spot spot(width, inner.size);
  for (u64 tile = (u64)blockIdx.x * width; tile < outputs; tile += (u64)gridDim.x * width) {
    u64 c = tile + spot.column, o = c;
    Best<W> best{Op::template identity<W>(), NOWHERE};
    if (c < outputs) {
      u64 k = split(o, inner);
      const T *at = in + o * reduced * inner.size + k;
#pragma unroll 1
      for (u64 r = spot.first; r < reduced; r += spot.step) {
        W v = (W)at[r * inner.size];
        if (v == v && v != best.v && Op::apply(v, best.v) == v) best = {v, r};
      }
    }
    best = across(best, partial, width, inner.size, [](Best<W> a, Best<W> b) {
      if (a.v == b.v) return a.at < b.at ? a : b;
      return Op::apply(a.v, b.v) == a.v ? a : b;
    });
    if (spot.first == 0 && c < outputs) {
      u64 at = best.at == NOWHERE ? 0 : best.at;
      if (wide) ((i64 *)out)[c] = (i64)at;
      else ((i32 *)out)[c] = (i32)at;
    }
    __syncthreads();
  }
}

#define ARG(name, Op, W, T)                                                                                             \
  KERNEL_OF(256, arg_##name)(const T *in, void *out, u64 wide, u64 outputs, u64 reduced, Divisor inner, u64 width) { \
    arg<Op, W>(in, out, wide, outputs, reduced, inner, width);                                                          \
  }
#define ARGS(name, Op)              \
  ARG(name##_f32, Op, float, float) \
  ARG(name##_f64, Op, double, double) \
  ARG(name##_f16, Op, float, half)  \
  ARG(name##_bf16, Op, float, bfloat16) \
  ARG(name##_i32, Op, i32, i32)     \
  ARG(name##_i64, Op, i64, i64)     \
  ARG(name##_u8, Op, u32, u8)
ARGS(max, Max)
ARGS(min, Min)
