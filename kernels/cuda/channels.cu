// Transposes each of n matrices to make channels come last or first. Tiles go through shared memory, so that both the source's rows and the
// result's rows are accessed contiguously.
#include "troupe.cuh"

constexpr int SIDE = 32, LINES = 8;

template <class T> DEVICE void move_channels(const T *from, T *to, u64 n, u64 rows, u64 columns) {
  __shared__ T tile[SIDE][SIDE + 1];
  u64 across = (columns + SIDE - 1) / SIDE;
  u64 row = blockIdx.x / across * SIDE, column = blockIdx.x % across * SIDE;
  u32 x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
  for (u64 z = blockIdx.y; z < n; z += gridDim.y) {
    const T *source = from + z * rows * columns;
    T *result = to + z * rows * columns;
    for (u32 i = y; i < SIDE; i += LINES)
      if (row + i < rows && column + x < columns) tile[i][x] = source[(row + i) * columns + column + x];
    __syncthreads();
    for (u32 i = y; i < SIDE; i += LINES)
      if (column + i < columns && row + x < rows) result[(column + i) * rows + row + x] = tile[x][i];
    __syncthreads();
  }
}

KERNEL_OF(SIDE * LINES, move_channels_8)(const u8 *from, u8 *to, u64 n, u64 rows, u64 columns) { move_channels(from, to, n, rows, columns); }
KERNEL_OF(SIDE * LINES, move_channels_16)(const u16 *from, u16 *to, u64 n, u64 rows, u64 columns) { move_channels(from, to, n, rows, columns); }
KERNEL_OF(SIDE * LINES, move_channels_32)(const u32 *from, u32 *to, u64 n, u64 rows, u64 columns) { move_channels(from, to, n, rows, columns); }
KERNEL_OF(SIDE * LINES, move_channels_64)(const u64 *from, u64 *to, u64 n, u64 rows, u64 columns) { move_channels(from, to, n, rows, columns); }
