// Running sums and products along the middle of three dimensions.
#include "combine.cuh"
#include "index.cuh"

// Line is n elements that lie inner apart. i counts positions from where the running result begins.
template <class W, class T> struct Line {
  const T *in;
  T *out;
  u64 n, step, reverse;
  __device__ __forceinline__ Line(const T *in, T *out, u64 n, const Divisor &inner, u64 reverse, u64 line) : in(in), out(out), n(n), step(inner.size), reverse(reverse) {
    u64 outer = line, k = split(outer, inner);
    this->in += outer * n * step + k;
    this->out += outer * n * step + k;
  }
  __device__ __forceinline__ u64 at(u64 i) const { return (reverse ? n - 1 - i : i) * step; }
};

// scan has a thread for each line.
template <class Op, class W, class T> DEVICE void scan(const T *in, T *out, u64 n, const Divisor &inner, u64 exclusive, u64 reverse, u64 lines) {
  GRID_LOOP(l, lines) {
    Line<W, T> line(in, out, n, inner, reverse, l);
    W running = Op::template identity<W>();
#pragma unroll 1
    for (u64 i = 0; i < n; i++) {
      W next = Op::apply(running, (W)line.in[line.at(i)]);
      line.out[line.at(i)] = (T)(exclusive ? running : next);
      running = next;
    }
  }
}

// scan_blocks has a block of 256 threads for each line, which it processes 256 elements at a time.
constexpr u64 THREADS = 256, WARPS = THREADS / 32;

template <class Op, class W, class T> DEVICE void scan_blocks(const T *in, T *out, u64 n, const Divisor &inner, u64 exclusive, u64 reverse, u64 lines) {
  __shared__ W totals[WARPS];
  u64 t = threadIdx.x, lane = t % 32, warp = t / 32;
  for (u64 l = blockIdx.x; l < lines; l += gridDim.x) {
    Line<W, T> line(in, out, n, inner, reverse, l);
    W carry = Op::template identity<W>();
    for (u64 from = 0; from < n; from += THREADS) {
      u64 i = from + t;
      W v = i < n ? (W)line.in[line.at(i)] : Op::template identity<W>();
      for (int o = 1; o < 32; o *= 2) {
        W before = __shfl_up_sync(ALL_LANES, v, o);
        if ((int)lane >= o) v = Op::apply(before, v);
      }
      W previous = __shfl_up_sync(ALL_LANES, v, 1);
      if (lane == 0) previous = Op::template identity<W>();
      if (lane == 31) totals[warp] = v;
      __syncthreads();
      W start = carry;
      for (u64 w = 0; w < WARPS; w++) {
        if (w < warp) start = Op::apply(start, totals[w]);
        carry = Op::apply(carry, totals[w]);
      }
      if (i < n) line.out[line.at(i)] = (T)Op::apply(start, exclusive ? previous : v);
      __syncthreads();
    }
  }
}

#define SCAN(name, function, Op, W, T)                                                                                       \
  KERNEL_OF(256, name)(const T *in, T *out, u64 n, Divisor inner, u64 exclusive, u64 reverse, u64 lines) { \
    function<Op, W>(in, out, n, inner, exclusive, reverse, lines);                                                           \
  }
#define SCANS(name, function, Op)                \
  SCAN(name##_f32, function, Op, float, float)   \
  SCAN(name##_f64, function, Op, double, double) \
  SCAN(name##_f16, function, Op, float, half)    \
  SCAN(name##_bf16, function, Op, float, bfloat16) \
  SCAN(name##_i32, function, Op, i32, i32)       \
  SCAN(name##_i64, function, Op, i64, i64)
SCANS(scan_sum, scan, Sum)
SCANS(scan_prod, scan, Prod)
SCANS(scan_sum_blocks, scan_blocks, Sum)
SCANS(scan_prod_blocks, scan_blocks, Prod)
