// Reductions over all places of images for each of their channels, or of a matrix for each column. A block of 256 threads handles width
// adjacent columns, where width is a power of two, and a range of rows. The blocks of a column each write a partial result; another kernel
// adds these up in order.
#pragma once
#include "images.cuh"

constexpr int COLUMN_THREADS = 256;

// Columns defines the offset of element (row, column): row*columns + column or, for images of spatial rows whose columns come first,
// (image*columns + column)*spatial + place. Each block takes span rows.
struct Columns {
  u64 rows, columns, spatial, first, width, span;
};

DEVICE u64 column_index(const Columns &c, u64 row, u64 column) {
  if (!c.first) return row * c.columns + column;
  u64 image = quotient(row, c.spatial);
  return (image * c.columns + column) * c.spatial + (row - image * c.spatial);
}

// reduce_columns calls add(state, row, column) for each of the block's elements, combines states with merge(state, other), and calls
// done(column, state) with each column's combined state.
template <class State, class Add, class Merge, class Done>
DEVICE void reduce_columns(const Columns &c, Add add, Merge merge, Done done) {
  __shared__ State states[COLUMN_THREADS];
  u32 t = threadIdx.x, width = (u32)c.width;
  u64 column = (u64)blockIdx.x * width + t % width;
  u64 end = min(c.rows, (blockIdx.y + (u64)1) * c.span);
  State state = {};
  if (column < c.columns)
    for (u64 row = blockIdx.y * c.span + t / width; row < end; row += COLUMN_THREADS / width) add(state, row, column);
  states[t] = state;
  for (u32 half = COLUMN_THREADS / 2; half >= width; half /= 2) {
    __syncthreads();
    if (t < half) merge(states[t], states[t + half]);
  }
  if (t < width && column < c.columns) done(column, states[t]);
}
