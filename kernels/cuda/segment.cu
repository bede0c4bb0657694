// Reductions of consecutive rows. Segment s has rows starts[s] up to starts[s+1].
#include "combine.cuh"
#include "index.cuh"

// A segment without rows yields the value empty. If mean is set, results are divided by the number of rows.
template <class Op, class W, class T>
DEVICE void segment(const T *in, T *out, const i64 *starts, const Divisor &inner, u64 mean, double empty, u64 count) {
  GRID_LOOP(i, count) {
    u64 s = i, k = split(s, inner);
    i64 from = starts[s], to = starts[s + 1];
    W acc = from < to ? Op::template identity<W>() : (W)empty;
#pragma unroll 1
    for (i64 r = from; r < to; r++) acc = Op::apply(acc, (W)in[(u64)r * inner.size + k]);
    if (mean && from < to) acc = acc / (W)(to - from);
    out[i] = (T)acc;
  }
}

#define SEGMENT(name, Op, W, T)                                                                                       \
  KERNEL(segment_##name)(const T *in, T *out, const i64 *starts, Divisor inner, u64 mean, double empty, u64 count) {  \
    segment<Op, W>(in, out, starts, inner, mean, empty, count);                                                       \
  }
#define SEGMENTS(name, Op)                 \
  SEGMENT(name##_f32, Op, float, float)    \
  SEGMENT(name##_f64, Op, double, double)  \
  SEGMENT(name##_f16, Op, float, half)     \
  SEGMENT(name##_bf16, Op, float, bfloat16) \
  SEGMENT(name##_i32, Op, i32, i32)        \
  SEGMENT(name##_i64, Op, i64, i64)
SEGMENTS(sum, Sum)
SEGMENTS(prod, Prod)
SEGMENTS(min, Min)
SEGMENTS(max, Max)
