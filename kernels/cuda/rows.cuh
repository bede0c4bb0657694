// Rows that groups of threads share: group is a power of 2 up to 32, or THREADS for all of a block.
#pragma once
#include "combine.cuh"

constexpr u64 THREADS = 256;

// FOR_ROWS runs its body for each row of a matrix, with row and lane, the thread's place in the group of
// that row. All threads run it as often; row may be rows or more, and then belongs to nobody.
#define FOR_ROWS(rows, group)                                                                                    \
  for (u64 lane = threadIdx.x % group, row = blockIdx.x * (THREADS / group) + threadIdx.x / group,              \
           ends_ = blockIdx.x * (THREADS / group); ends_ < rows;                                                 \
       row += gridDim.x * (THREADS / group), ends_ += gridDim.x * (THREADS / group))

// among gives all threads of a group what Op makes of their values; shared has THREADS/32 of them. All
// threads of the block come here.
template <class Op, class W> DEVICE W among(W v, u64 group, W *shared) {
#pragma unroll 1
  for (int o = (int)(group < 32 ? group : 32) / 2; o > 0; o /= 2) v = Op::apply(v, __shfl_xor_sync(ALL_LANES, v, o));
  if (group <= 32) return v;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = shared[0];
#pragma unroll 1
  for (u64 w = 1; w < THREADS / 32; w++) v = Op::apply(v, shared[w]);
  __syncthreads();
  return v;
}
