// Blocks of pixels as batches, and bands of matrices.
#include "index.cuh"

// Blocks describes how padded or cropped large images are divided into blocks, whose offsets become batches of small images. These are
// [block.., batch, grid.., pixel].
constexpr int SPACE = 8;
struct Blocks {
  u64 rank;
  Divisor pixel, batch, grid[SPACE], block[SPACE];
  u64 space[SPACE];
  i64 before[SPACE];
};

// inside finds the element of the large images that corresponds to element i of the small ones. It returns false for padding.
DEVICE bool inside(const Blocks &b, u64 i, u64 &large) {
  u64 k = split(i, b.pixel), cell = i, offset, step = b.pixel.size;
#pragma unroll 1
  for (u64 d = 0; d < b.rank; d++) i = divide(i, b.grid[d]);
  offset = i;
  u64 n = split(offset, b.batch);
  large = k;
#pragma unroll 1
  for (u64 d = b.rank; d-- > 0;) {
    i64 x = (i64)(split(cell, b.grid[d]) * b.block[d].size + split(offset, b.block[d])) - b.before[d];
    if ((u64)x >= b.space[d]) return false;
    large += (u64)x * step;
    step *= b.space[d];
  }
  large += n * step;
  return true;
}

// If to_batch is set, dst are the small images and src the large ones; otherwise the reverse.
template <class C> DEVICE void space_batch(C *dst, const C *src, const Blocks &b, u64 to_batch, u64 count) {
  GRID_LOOP(i, count) {
    u64 large;
    bool there = inside(b, i, large);
    if (to_batch) dst[i] = there ? src[large] : C{};
    else if (there) dst[large] = src[i];
  }
}

// Clears everything outside the given numbers of diagonals below and above the main one. A negative number means all.
template <class C> DEVICE void band_part(C *data, const Divisor &rows, const Divisor &cols, i64 lower, i64 upper, u64 count) {
  GRID_LOOP(i, count) {
    u64 q = i;
    i64 col = (i64)split(q, cols), row = (i64)split(q, rows);
    if ((lower >= 0 && row - col > lower) || (upper >= 0 && col - row > upper)) data[i] = C{};
  }
}

#define SPACES(size)                                                                                        \
  KERNEL(space_batch_##size)(cell##size *dst, const cell##size *src, Blocks b, u64 to_batch, u64 count) { space_batch(dst, src, b, to_batch, count); } \
  KERNEL(band_part_##size)(cell##size *data, Divisor rows, Divisor cols, i64 lower, i64 upper, u64 count) { band_part(data, rows, cols, lower, upper, count); }
FOR_CELLS(SPACES)

// The gradient of mirrored padding: the sum over all copies of an element. In dimension d, position p is copied to p + before, and to the
// mirrored positions that exist.
struct Mirror {
  u64 rank, offset;
  Divisor dims[SPACE];
  u64 padded[SPACE], before[SPACE], strides[SPACE];
};

template <class T> DEVICE void mirror_grad(const T *in, T *out, const Mirror &m, u64 count) {
  GRID_LOOP(i, count) {
    typename Wide<T>::type sum = 0;
    u64 combinations = 1;
#pragma unroll 1
    for (u64 d = 0; d < m.rank; d++) combinations *= 3;
#pragma unroll 1
    for (u64 c = 0; c < combinations; c++) {
      u64 rest = c, left = i, from = 0;
      bool there = true;
#pragma unroll 1
      for (u64 d = m.rank; d-- > 0;) {
        i64 n = (i64)m.dims[d].size, before = (i64)m.before[d], p = (i64)split(left, m.dims[d]), at;
        switch (rest % 3) {
        case 0: at = p; break;
        case 1: at = -p - 1 + (i64)m.offset; there = there && at < 0; break;
        default: at = 2 * n - 1 - p - (i64)m.offset; there = there && at >= n;
        }
        at += before;
        there = there && at >= 0 && at < (i64)m.padded[d];
        from += (u64)at * m.strides[d];
        rest /= 3;
      }
      if (there) sum += (typename Wide<T>::type)in[from];
    }
    out[i] = (T)sum;
  }
}

KERNEL(mirror_grad_f32)(const float *in, float *out, Mirror m, u64 count) { mirror_grad(in, out, m, count); }
KERNEL(mirror_grad_f64)(const double *in, double *out, Mirror m, u64 count) { mirror_grad(in, out, m, count); }
KERNEL(mirror_grad_f16)(const half *in, half *out, Mirror m, u64 count) { mirror_grad(in, out, m, count); }
KERNEL(mirror_grad_bf16)(const bfloat16 *in, bfloat16 *out, Mirror m, u64 count) { mirror_grad(in, out, m, count); }
