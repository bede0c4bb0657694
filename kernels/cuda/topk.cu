// The greatest elements of rows, and whether a class is among them.
#include "rows.cuh"
#include "index.cuh"

// ahead is the order of elements: greater first, NaN before all numbers and, among equals, the first index first.
template <class W> DEVICE bool ahead(W a, u64 i, W b, u64 j) {
  if (a != a || b != b) return a != a && (b == b || i < j);
  return a > b || (a == b && i < j);
}

template <class T> DEVICE void give(T v, u64 at, u64 i, T *values, void *indices, u64 kind) {
  values[i] = v;
  switch (kind) {
  case 2: ((i16 *)indices)[i] = (i16)at; break;
  case 4: ((i32 *)indices)[i] = (i32)at; break;
  default: ((i64 *)indices)[i] = (i64)at;
  }
}

// top_rank counts, for each element, the elements ahead of it.
template <class W, class T> DEVICE void top_rank(const T *in, T *values, void *indices, u64 kind, const Divisor &columns, u64 k, u64 count) {
  GRID_LOOP(i, count) {
    u64 row = i, own = split(row, columns), rank = 0;
    const T *x = in + row * columns.size;
    W v = (W)x[own];
#pragma unroll 1
    for (u64 j = 0; j < columns.size && rank < k; j++) rank += ahead((W)x[j], j, v, own);
    if (rank < k) give(x[own], own, row * k + rank, values, indices, kind);
  }
}

// A block finds the next element of its row, k times.
constexpr u64 NOWHERE = ~0ull;

template <class W, class T> DEVICE void top_next(const T *in, T *values, void *indices, u64 kind, u64 rows, u64 columns, u64 k) {
  __shared__ W best[THREADS / 32];
  __shared__ u64 places[THREADS / 32];
  for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const T *x = in + row * columns;
    W last{};
    u64 last_at = NOWHERE;
    for (u64 n = 0; n < k; n++) {
      W v{};
      u64 at = NOWHERE;
#pragma unroll 1
      for (u64 c = threadIdx.x; c < columns; c += THREADS) {
        W e = (W)x[c];
        if ((last_at == NOWHERE || ahead(last, last_at, e, c)) && (at == NOWHERE || ahead(e, c, v, at))) v = e, at = c;
      }
#pragma unroll 1
      for (int o = 16; o > 0; o /= 2) {
        W w = __shfl_xor_sync(ALL_LANES, v, o);
        u64 p = __shfl_xor_sync(ALL_LANES, at, o);
        if (p != NOWHERE && (at == NOWHERE || ahead(w, p, v, at))) v = w, at = p;
      }
      if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = v, places[threadIdx.x / 32] = at;
      __syncthreads();
      v = best[0], at = places[0];
#pragma unroll 1
      for (u64 w = 1; w < THREADS / 32; w++)
        if (places[w] != NOWHERE && (at == NOWHERE || ahead(best[w], places[w], v, at))) v = best[w], at = places[w];
      __syncthreads();
      if (threadIdx.x == 0) give(x[at], at, row * k + n, values, indices, kind);
      last = v, last_at = at;
    }
  }
}

#define TOP(name, W, T)                                                                                             \
  KERNEL(top_rank_##name)(const T *in, T *values, void *indices, u64 kind, Divisor columns, u64 k, u64 count) {     \
    top_rank<W>(in, values, indices, kind, columns, k, count);                                                      \
  }                                                                                                                 \
  KERNEL_OF(256, top_next_##name)(const T *in, T *values, void *indices, u64 kind, u64 rows, u64 columns, u64 k) {  \
    top_next<W>(in, values, indices, kind, rows, columns, k);                                                       \
  }
TOP(f32, float, float)
TOP(f64, double, double)
TOP(f16, float, half)
TOP(bf16, float, bfloat16)
TOP(i32, i32, i32)
TOP(i64, i64, i64)

// Reports whether fewer than k classes have a higher prediction than the target. If the target is not a class, or predictions are not
// finite, the result is false.
KERNEL_OF(256, in_top_k_f32)(const float *predictions, const void *targets, u64 kind, u8 *out, u64 rows, u64 columns, u64 group, i64 k) {
  __shared__ u64 shared[THREADS / 32];
  FOR_ROWS(rows, group) {
    const float *x = predictions + row * columns;
    u64 target = row < rows ? (u64)index_at(targets, kind, row) : columns;
    u64 better = 0, bad = target >= columns;
    float own = bad ? 0 : x[target];
#pragma unroll 1
    for (u64 c = lane; c < columns && !bad; c += group) {
      if (!isfinite(x[c])) bad = 1;
      else if (x[c] > own) better++;
    }
    better = among<Sum>(better, group, shared);
    bad = among<Or>(bad, group, shared);
    if (lane == 0 && row < rows) out[row] = !bad && (i64)better < k;
  }
}
