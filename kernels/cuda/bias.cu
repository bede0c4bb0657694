// The gradient of a bias: sums over all dimensions except the channels.
#include "columns.cuh"

template <class T> DEVICE void bias_grad(const T *grad, typename Wide<T>::type *partial, const Columns &c) {
  typedef typename Wide<T>::type W;
  reduce_columns<W>(
      c, [&](W &sum, u64 row, u64 column) { sum += (W)grad[column_index(c, row, column)]; }, [](W &sum, W other) { sum += other; },
      [&](u64 column, W sum) { partial[blockIdx.y * c.columns + column] = sum; });
}

KERNEL_OF(COLUMN_THREADS, bias_grad_f32)(const float *grad, float *partial, Columns c) { bias_grad(grad, partial, c); }
KERNEL_OF(COLUMN_THREADS, bias_grad_f64)(const double *grad, double *partial, Columns c) { bias_grad(grad, partial, c); }
KERNEL_OF(COLUMN_THREADS, bias_grad_f16)(const half *grad, float *partial, Columns c) { bias_grad(grad, partial, c); }
KERNEL_OF(COLUMN_THREADS, bias_grad_bf16)(const bfloat16 *grad, float *partial, Columns c) { bias_grad(grad, partial, c); }
