// Coordinates of nonzero elements. Each block counts those of its span, one warp computes the running sums of the counts, and each block
// then writes the coordinates of its own elements at its offset, in order.
#include "index.cuh"

constexpr int WHERE_THREADS = 256;

// Mask holds the bits that distinguish an element from zero: all but the signs of floating-point numbers.
struct Mask {
  u64 low, high;
};

template <class C> DEVICE bool is_set(C c, const Mask &m) { return (c & m.low) != 0; }
DEVICE bool is_set(const cell16 &c, const Mask &m) {
  return ((((u64)c.y << 32 | c.x) & m.low) | (((u64)c.w << 32 | c.z) & m.high)) != 0;
}

template <class C> DEVICE void where_count(const C *in, u64 n, const Mask &mask, u64 span, u64 *counts) {
  u64 first = (u64)blockIdx.x * span, end = min(n, first + span), count = 0;
  for (u64 i = first + threadIdx.x; i < end; i += blockDim.x) count += is_set(in[i], mask);
  if (count) atomicAdd(&counts[blockIdx.x], count);
}

// where_starts replaces each block's count by the sum of the preceding ones, and sets total to the sum of all. It has one warp.
KERNEL_OF(32, where_starts)(u64 *counts, u64 blocks, u64 *total) {
  u64 lane = threadIdx.x, before = 0;
  for (u64 first = 0; first < blocks; first += 32) {
    u64 own = first + lane < blocks ? counts[first + lane] : 0, sum = own;
    for (int step = 1; step < 32; step *= 2) {
      u64 left = __shfl_up_sync(ALL_LANES, sum, step);
      if (lane >= (u64)step) sum += left;
    }
    if (first + lane < blocks) counts[first + lane] = before + sum - own;
    before += __shfl_sync(ALL_LANES, sum, 31);
  }
  if (lane == 0) *total = before;
}

template <class C> DEVICE void where_write(const C *in, u64 n, const Mask &mask, u64 span, const u64 *starts, const Point &shape, i64 *out) {
  __shared__ u32 warps[WHERE_THREADS / 32];
  u64 first = (u64)blockIdx.x * span, end = min(n, first + span), row = starts[blockIdx.x];
  u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (u64 tile = first; tile < end; tile += WHERE_THREADS) {
    u64 i = tile + threadIdx.x;
    bool set = i < end && is_set(in[i], mask);
    u32 ballot = __ballot_sync(ALL_LANES, set);
    if (lane == 0) warps[warp] = __popc(ballot);
    __syncthreads();
    u32 before = 0, all = 0;
    for (u32 w = 0; w < WHERE_THREADS / 32; w++) {
      if (w < warp) before += warps[w];
      all += warps[w];
    }
    if (set) {
      i64 *to = out + (row + before + __popc(ballot & ((1u << lane) - 1))) * shape.depth;
#pragma unroll 1
      for (u64 d = shape.depth; d-- > 0;) {
        to[d] = (i64)(i % shape.dims[d]);
        i /= shape.dims[d];
      }
    }
    row += all;
    __syncthreads();
  }
}

#define WHERE(size)                                                                                                \
  KERNEL(where_count_##size)(const cell##size *in, u64 n, Mask mask, u64 span, u64 *counts) { where_count(in, n, mask, span, counts); } \
  KERNEL_OF(WHERE_THREADS, where_write_##size)(const cell##size *in, u64 n, Mask mask, u64 span, const u64 *starts, Point shape, i64 *out) { \
    where_write(in, n, mask, span, starts, shape, out);                                                            \
  }
FOR_CELLS(WHERE)
