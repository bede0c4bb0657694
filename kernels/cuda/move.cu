// Copies of elements: nests of loops, transpositions, rows that lists name, joined parts, and fills.
#include "index.cuh"

// Nest is a nest of loops, outermost first, with the strides of destination and source in each.
constexpr int NEST = 16;
struct Nest {
  u64 rank;
  Divisor dims[NEST];
  i64 dst[NEST], src[NEST];
};

// place adds the offsets of iteration i of the nest's first loops to d and s.
DEVICE void place(const Nest &n, u64 loops, u64 i, i64 &d, i64 &s) {
#pragma unroll 1
  for (u64 k = loops; k-- > 0;) {
    i64 r = (i64)split(i, n.dims[k]);
    d += r * n.dst[k];
    s += r * n.src[k];
  }
}

template <class C> DEVICE void move_nest(C *dst, const C *src, const Nest &n, u64 count) {
  GRID_LOOP(i, count) {
    i64 d = 0, s = 0;
    place(n, n.rank, i, d, s);
    dst[d] = src[s];
  }
}

// Tiles of the last two loops. The source is contiguous in the first of them, the destination in the second. Blocks have 256 threads.
constexpr u64 SIDE = 32;

template <class C> DEVICE void move_tiles(C *dst, const C *src, const Nest &n, const Divisor &high, const Divisor &wide, u64 tiles) {
  __shared__ C tile[SIDE][SIDE + 1];
  u64 x = threadIdx.x % SIDE, y = threadIdx.x / SIDE, last = n.rank - 1;
  u64 rows = n.dims[last - 1].size, cols = n.dims[last].size;
  i64 row_step = n.dst[last - 1], col_step = n.src[last];
  for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
    u64 outer = t;
    u64 col = split(outer, wide) * SIDE, row = split(outer, high) * SIDE;
    i64 d = 0, s = 0;
    place(n, last - 1, outer, d, s);
    for (u64 j = y; j < SIDE; j += 8)
      if (row + x < rows && col + j < cols) tile[j][x] = src[s + (i64)(row + x) + (i64)(col + j) * col_step];
    __syncthreads();
    for (u64 j = y; j < SIDE; j += 8)
      if (row + j < rows && col + x < cols) dst[d + (i64)(row + j) * row_step + (i64)(col + x)] = tile[x][j];
    __syncthreads();
  }
}

// move_rows copies rows of one length: row from[i] of the source to row to[i]. Without a list, the row is i.
template <class C> DEVICE void move_rows(C *dst, const C *src, const i64 *to, const i64 *from, const Divisor &length, u64 count) {
  GRID_LOOP(i, count) {
    u64 row = i, k = split(row, length);
    i64 d = to ? to[row] : (i64)row, s = from ? from[row] : (i64)row;
    dst[d * (i64)length.size + (i64)k] = src[s * (i64)length.size + (i64)k];
  }
}

// Parts are side by side in rows of width elements in total. Part p ends at end[p].
constexpr int PARTS = 16;
struct Parts {
  u64 count, src[PARTS], end[PARTS];
};

template <class C> DEVICE void join(C *dst, const Parts &parts, const Divisor &width, u64 row_step, u64 count) {
  GRID_LOOP(i, count) {
    u64 row = i, col = split(row, width), p = 0, start = 0;
    while (col >= parts.end[p]) start = parts.end[p++];
    dst[row * row_step + col] = ((const C *)parts.src[p])[row * (parts.end[p] - start) + col - start];
  }
}

DEVICE void cell_of(u64 low, u64 high, cell16 &c) { c = {(u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32)}; }
template <class C> DEVICE void cell_of(u64 low, u64 high, C &c) { c = (C)low; }

template <class C> DEVICE void fill(C *dst, u64 low, u64 high, u64 count) {
  C value;
  cell_of(low, high, value);
  GRID_LOOP(i, count) dst[i] = value;
}

#define MOVE(size)                                                                                              \
  KERNEL(move_nest_##size)(cell##size *dst, const cell##size *src, Nest n, u64 count) { move_nest(dst, src, n, count); } \
  KERNEL_OF(256, move_tiles_##size)(cell##size *dst, const cell##size *src, Nest n, Divisor high, Divisor wide, u64 tiles) { \
    move_tiles(dst, src, n, high, wide, tiles);                                                                 \
  }                                                                                                             \
  KERNEL(move_rows_##size)(cell##size *dst, const cell##size *src, const i64 *to, const i64 *from, Divisor length, u64 count) { \
    move_rows(dst, src, to, from, length, count);                                                               \
  }                                                                                                             \
  KERNEL(join_##size)(cell##size *dst, Parts parts, Divisor width, u64 row_step, u64 count) { join(dst, parts, width, row_step, count); } \
  KERNEL(fill_##size)(cell##size *dst, u64 low, u64 high, u64 count) { fill(dst, low, high, count); }
FOR_CELLS(MOVE)
