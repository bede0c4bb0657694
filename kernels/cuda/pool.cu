// Pooling and its gradients. Each thread computes an element of the result. For gradients, it gathers from all windows that contain the
// element.
#include "images.cuh"

// over is the number of adjacent channels that are pooled into one.
template <class T> DEVICE void max_pool(const T *in, T *out, u64 n, const Grid &from, const Grid &to, const Window &rows, const Window &columns, u64 over) {
  typedef typename Wide<T>::type W;
  GRID_LOOP(i, n) {
    Element e = element_of(to, i);
    Part y = part_at(rows, e.y), x = part_at(columns, e.x);
    W best = -(W)__builtin_inff();
    for (u64 j = y.low; j < y.high; j++)
      for (u64 k = x.low; k < x.high; k++)
        for (u64 c = e.channel * over; c < (e.channel + 1) * over; c++) {
          W v = (W)in[index_of(from, e.image, y.start + j, x.start + k, c)];
          if (v > best || v != v) best = v;
        }
    out[i] = (T)best;
  }
}

// first_max finds the first maximum of a window.
template <class T>
DEVICE u64 first_max(const T *in, const Grid &grid, const Part &y, const Part &x, u64 image, u64 channel) {
  typedef typename Wide<T>::type W;
  u64 at = index_of(grid, image, y.start + y.low, x.start + x.low, channel);
  W best = (W)in[at];
  for (u64 j = y.low; j < y.high; j++)
    for (u64 k = x.low; k < x.high; k++) {
      u64 i = index_of(grid, image, y.start + j, x.start + k, channel);
      W v = (W)in[i];
      if (v > best) best = v, at = i;
    }
  return at;
}

// Indices of maxima count from the image's first element or, if batches is set, from the first element of all images. They are 4 bytes wide
// if narrow is set.
template <class T>
DEVICE void max_pool_argmax(const T *in, T *out, void *argmax, u64 n, const Grid &from, const Grid &to, const Window &rows, const Window &columns, u64 narrow, u64 batches) {
  u64 size = from.channels * from.height * from.width;
  GRID_LOOP(i, n) {
    Element e = element_of(to, i);
    u64 at = first_max(in, from, part_at(rows, e.y), part_at(columns, e.x), e.image, e.channel);
    out[i] = in[at];
    if (!batches) at -= e.image * size;
    if (narrow) ((i32 *)argmax)[i] = (i32)at;
    else ((i64 *)argmax)[i] = (i64)at;
  }
}

// Each place of the result adds its gradient to the element that was the maximum. per and size are the numbers of elements of a result's
// image and of an input's image. limit bounds the indices; those beyond it are ignored.
template <class T> DEVICE void max_pool_argmax_grad(const T *grad, const i64 *argmax, T *out, u64 n, u64 per, u64 size, u64 limit) {
  GRID_LOOP(i, n) {
    u64 at = (u64)argmax[i];
    if (at < limit) atomicAdd(&out[quotient(i, per) * size + at], (typename Wide<T>::type)grad[i]);
  }
}

template <class T> DEVICE void max_pool_grad(const T *in, const T *grad, T *out, u64 n, const Grid &from, const Grid &to, const Window &rows, const Window &columns) {
  typedef typename Wide<T>::type W;
  GRID_LOOP(i, n) {
    Element e = element_of(from, i);
    Places ys = places_over(rows, e.y), xs = places_over(columns, e.x);
    W sum = 0;
    for (u64 py = ys.low; py < ys.high; py++) {
      Part y = part_at(rows, py);
      for (u64 px = xs.low; px < xs.high; px++)
        if (first_max(in, from, y, part_at(columns, px), e.image, e.channel) == i) sum += (W)grad[index_of(to, e.image, py, px, e.channel)];
    }
    out[i] = (T)sum;
  }
}

template <class T> DEVICE void avg_pool(const T *in, T *out, u64 n, const Grid &from, const Grid &to, const Window &rows, const Window &columns) {
  typedef typename Wide<T>::type W;
  GRID_LOOP(i, n) {
    Element e = element_of(to, i);
    Part y = part_at(rows, e.y), x = part_at(columns, e.x);
    W sum = 0;
    u64 count = 0;
    for (u64 j = y.low; j < y.high; j++)
      for (u64 k = x.low; k < x.high; k++, count++) sum += (W)in[index_of(from, e.image, y.start + j, x.start + k, e.channel)];
    out[i] = (T)(sum / (W)count);
  }
}

template <class T> DEVICE void avg_pool_grad(const T *grad, T *out, u64 n, const Grid &from, const Grid &to, const Window &rows, const Window &columns) {
  typedef typename Wide<T>::type W;
  GRID_LOOP(i, n) {
    Element e = element_of(from, i);
    Places ys = places_over(rows, e.y), xs = places_over(columns, e.x);
    W sum = 0;
    for (u64 py = ys.low; py < ys.high; py++) {
      Part y = part_at(rows, py);
      for (u64 px = xs.low; px < xs.high; px++) {
        Part x = part_at(columns, px);
        sum += (W)grad[index_of(to, e.image, py, px, e.channel)] / (W)((y.high - y.low) * (x.high - x.low));
      }
    }
    out[i] = (T)sum;
  }
}

#define POOL(type, T)                                                                                                          \
  KERNEL(max_pool_##type)(const T *in, T *out, u64 n, Grid from, Grid to, Window rows, Window columns, u64 over) {              \
    max_pool(in, out, n, from, to, rows, columns, over);                                                                       \
  }                                                                                                                            \
  KERNEL(max_pool_grad_##type)(const T *in, const T *grad, T *out, u64 n, Grid from, Grid to, Window rows, Window columns) {    \
    max_pool_grad(in, grad, out, n, from, to, rows, columns);                                                                  \
  }                                                                                                                            \
  KERNEL(max_pool_argmax_##type)(const T *in, T *out, void *argmax, u64 n, Grid from, Grid to, Window rows, Window columns,    \
                                 u64 narrow, u64 batches) {                                                                    \
    max_pool_argmax(in, out, argmax, n, from, to, rows, columns, narrow, batches);                                             \
  }                                                                                                                            \
  KERNEL(max_pool_argmax_grad_##type)(const T *grad, const i64 *argmax, T *out, u64 n, u64 per, u64 size, u64 limit) {          \
    max_pool_argmax_grad(grad, argmax, out, n, per, size, limit);                                                              \
  }                                                                                                                            \
  KERNEL(avg_pool_##type)(const T *in, T *out, u64 n, Grid from, Grid to, Window rows, Window columns) {                        \
    avg_pool(in, out, n, from, to, rows, columns);                                                                             \
  }                                                                                                                            \
  KERNEL(avg_pool_grad_##type)(const T *grad, T *out, u64 n, Grid from, Grid to, Window rows, Window columns) {                 \
    avg_pool_grad(grad, out, n, from, to, rows, columns);                                                                      \
  }

POOL(f32, float)
POOL(f64, double)
POOL(f16, half)
POOL(bf16, bfloat16)
