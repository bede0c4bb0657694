// Softmax of rows, and cross entropies with their gradients.
#include "rows.cuh"
#include "index.cuh"

// peak computes the greatest of a row's logits, and the sum of the exponentials of all relative to it. The logits are step apart.
template <class W, class T> DEVICE void peak(const T *logits, u64 columns, u64 step, u64 lane, u64 group, W *shared, W &top, W &sum) {
  top = Max::identity<W>();
  for (u64 c = lane; c < columns; c += group) top = Max::apply(top, (W)logits[c * step]);
  top = among<Max>(top, group, shared);
  sum = 0;
  for (u64 c = lane; c < columns; c += group) sum += exp((W)logits[c * step] - top);
  sum = among<Sum>(sum, group, shared);
}

// out may be in, since each thread writes only elements that no other thread reads.
template <class W, class T> DEVICE void softmax(const T *in, T *out, u64 rows, u64 columns, u64 group, u64 logs) {
  __shared__ W shared[THREADS / 32];
  FOR_ROWS(rows, group) {
    u64 n = row < rows ? columns : 0;
    const T *from = in + row * columns;
    T *to = out + row * columns;
    W top, sum;
    peak(from, n, 1, lane, group, shared, top, sum);
    W less = logs ? log(sum) : W(0), scale = 1 / sum;
    for (u64 c = lane; c < n; c += group) {
      W x = (W)from[c] - top;
      to[c] = (T)(logs ? x - less : exp(x) * scale);
    }
  }
}

// Strides holds the steps of logits and labels by row and column. They are 0 in broadcast dimensions.
struct Strides {
  u64 logits_row, logits_column, labels_row, labels_column;
};

// grad may be logits if these are not broadcast, as above.
template <class W, class T> DEVICE void xent(const T *logits, const T *labels, T *loss, T *grad, u64 rows, u64 columns, u64 group, const Strides &s) {
  __shared__ W shared[THREADS / 32];
  FOR_ROWS(rows, group) {
    u64 n = row < rows ? columns : 0;
    const T *x = logits + row * s.logits_row, *y = labels + row * s.labels_row;
    W top, sum, mass = 0, weighted = 0;
    peak(x, n, s.logits_column, lane, group, shared, top, sum);
    W scale = 1 / sum;
    for (u64 c = lane; c < n; c += group) {
      W shifted = (W)x[c * s.logits_column] - top, label = (W)y[c * s.labels_column];
      if (label != 0) { // labels of 0 add nothing, even if the logit is infinite
        mass += label;
        weighted += label * shifted;
      }
      grad[row * columns + c] = (T)(exp(shifted) * scale - label);
    }
    mass = among<Sum>(mass, group, shared);
    weighted = among<Sum>(weighted, group, shared);
    if (lane == 0 && row < rows) loss[row] = (T)(mass != 0 || weighted != 0 ? mass * log(sum) - weighted : W(0));
  }
}

// An invalid label yields NaN.
template <class W, class T> DEVICE void sparse_xent(const T *logits, const void *labels, u64 kind, T *loss, T *grad, u64 rows, u64 columns, u64 group) {
  __shared__ W shared[THREADS / 32];
  FOR_ROWS(rows, group) {
    u64 n = row < rows ? columns : 0;
    const T *x = logits + row * columns;
    u64 label = row < rows ? (u64)index_at(labels, kind, row) : 0;
    W nothing = label < columns ? W(0) : (W)__builtin_nanf(""), own = row < rows && label < columns ? (W)x[label] : W(0);
    W top, sum;
    peak(x, n, 1, lane, group, shared, top, sum);
    W scale = 1 / sum;
    for (u64 c = lane; c < n; c += group) grad[row * columns + c] = (T)(exp((W)x[c] - top) * scale - (c == label ? W(1) : nothing));
    if (lane == 0 && row < rows) loss[row] = (T)(log(sum) - (own - top) + nothing);
  }
}

#define SOFTMAX(name, W, T)                                                                                        \
  KERNEL_OF(256, softmax_##name)(const T *in, T *out, u64 rows, u64 columns, u64 group, u64 logs) { softmax<W>(in, out, rows, columns, group, logs); } \
  KERNEL_OF(256, xent_##name)(const T *logits, const T *labels, T *loss, T *grad, u64 rows, u64 columns, u64 group, Strides s) { \
    xent<W>(logits, labels, loss, grad, rows, columns, group, s);                                                  \
  }                                                                                                                \
  KERNEL_OF(256, sparse_xent_##name)(const T *logits, const void *labels, u64 kind, T *loss, T *grad, u64 rows, u64 columns, u64 group) { \
    sparse_xent<W>(logits, labels, kind, loss, grad, rows, columns, group);                                        \
  }
SOFTMAX(f32, float, float)
SOFTMAX(f64, double, double)
SOFTMAX(f16, float, half)
SOFTMAX(bf16, float, bfloat16)
