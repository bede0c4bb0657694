// Convolutions that filter each channel separately, with times results for each, and their gradients. Filters are
// [rows][columns][channels][times].
#include "columns.cuh"

template <class T> DEVICE void depthwise(const T *in, const T *filter, T *out, u64 n, const Grid &from, const Grid &to, const Window &rows, const Window &columns, u64 times) {
  typedef typename Wide<T>::type W;
  GRID_LOOP(i, n) {
    Element e = element_of(to, i);
    Part y = part_at(rows, e.y), x = part_at(columns, e.x);
    u64 channel = quotient(e.channel, times);
    W sum = 0;
    for (u64 j = y.low; j < y.high; j++)
      for (u64 k = x.low; k < x.high; k++)
        sum += (W)in[index_of(from, e.image, y.start + j * rows.dilation, x.start + k * columns.dilation, channel)] * (W)filter[(j * columns.size + k) * to.channels + e.channel];
    out[i] = (T)sum;
  }
}

// place_of finds the place whose window has the pixel as its element i. It returns false if there is none.
DEVICE bool place_of(const Window &w, u64 pixel, u64 i, u64 &place) {
  i64 at = (i64)(pixel + w.before) - (i64)(i * w.dilation);
  if (at < 0) return false;
  place = quotient(at, w.stride);
  return place * w.stride == (u64)at && place < w.out;
}

template <class T> DEVICE void depthwise_input(const T *grad, const T *filter, T *out, u64 n, const Grid &from, const Grid &to, const Window &rows, const Window &columns, u64 times) {
  typedef typename Wide<T>::type W;
  GRID_LOOP(i, n) {
    Element e = element_of(from, i);
    W sum = 0;
    for (u64 j = 0; j < rows.size; j++) {
      u64 y, x;
      if (!place_of(rows, e.y, j, y)) continue;
      for (u64 k = 0; k < columns.size; k++) {
        if (!place_of(columns, e.x, k, x)) continue;
        for (u64 c = e.channel * times; c < (e.channel + 1) * times; c++)
          sum += (W)grad[index_of(to, e.image, y, x, c)] * (W)filter[(j * columns.size + k) * to.channels + c];
      }
    }
    out[i] = (T)sum;
  }
}

// depthwise_filter computes partial sums over some rows of c, which are places. Each block has one tap.
template <class T>
DEVICE void depthwise_filter(const T *in, const T *grad, typename Wide<T>::type *partial, const Columns &c, const Grid &from, const Grid &to, const Window &rows, const Window &columns, u64 times) {
  typedef typename Wide<T>::type W;
  u64 taps = rows.size * columns.size;
  for (u64 tap = blockIdx.z; tap < taps; tap += gridDim.z) {
    u64 j = tap / columns.size, k = tap % columns.size;
    reduce_columns<W>(
        c,
        [&](W &sum, u64 row, u64 column) {
          u64 line = quotient(row, to.width), x = row - line * to.width, image = quotient(line, to.height), y = line - image * to.height;
          i64 py = (i64)(y * rows.stride + j * rows.dilation) - (i64)rows.before, px = (i64)(x * columns.stride + k * columns.dilation) - (i64)columns.before;
          if (py < 0 || px < 0 || (u64)py >= rows.in || (u64)px >= columns.in) return;
          sum += (W)in[index_of(from, image, py, px, quotient(column, times))] * (W)grad[index_of(to, image, y, x, column)];
        },
        [](W &sum, W other) { sum += other; }, [&](u64 column, W sum) { partial[(blockIdx.y * taps + tap) * c.columns + column] = sum; });
    __syncthreads();
  }
}

#define DEPTHWISE(suffix, T)                                                                                                           \
  KERNEL(depthwise_##suffix)(const T *in, const T *filter, T *out, u64 n, Grid from, Grid to, Window rows, Window columns, u64 times) {  \
    depthwise(in, filter, out, n, from, to, rows, columns, times);                                                                    \
  }                                                                                                                                   \
  KERNEL(depthwise_input_##suffix)(const T *grad, const T *filter, T *out, u64 n, Grid from, Grid to, Window rows, Window columns, u64 times) { \
    depthwise_input(grad, filter, out, n, from, to, rows, columns, times);                                                            \
  }                                                                                                                                   \
  KERNEL_OF(COLUMN_THREADS, depthwise_filter_##suffix)                                                                                  \
  (const T *in, const T *grad, Wide<T>::type *partial, Columns c, Grid from, Grid to, Window rows, Window columns, u64 times) {        \
    depthwise_filter(in, grad, partial, c, from, to, rows, columns, times);                                                           \
  }

DEPTHWISE(f32, float)
DEPTHWISE(f64, double)
DEPTHWISE(f16, half)
DEPTHWISE(bf16, bfloat16)
