// Rows that groups of threads share. group is a power of 2 up to 32, or THREADS for a whole block.
#pragma once
#include "combine.cuh"

constexpr u64 THREADS = 256;

// FOR_ROWS runs its body for each row of a matrix, with row and lane, the thread's index in the row's group. All threads run it equally
// often; if row is rows or more, there is no such row.
#define FOR_ROWS(rows, group)                                                                                    \
  for (u64 lane = threadIdx.x % group, row = blockIdx.x * (THREADS / group) + threadIdx.x / group,              \
           ends_ = blockIdx.x * (THREADS / group); ends_ < rows;                                                 \
       row += gridDim.x * (THREADS / group), ends_ += gridDim.x * (THREADS / group))

// among returns to all threads of a group the combination of their values by Op. shared has room for THREADS/32 values. All threads of the
// block must call it.
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
