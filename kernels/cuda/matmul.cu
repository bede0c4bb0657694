// Matrix products by multiply-adds: see gemm.cuh.
#include "batch.cuh"
#include "gemm.cuh"

// An operand's inner flag says whether its neighbours along k are adjacent in memory.
#define MATMUL(name, T, rows, columns, depth)                                                                     \
  GEMM_KERNEL(FMA_THREADS, name)                                                                                  \
  (Sizes s, Matrix<T> a, u64 a_inner, Matrix<T> b, u64 b_inner, Output<T> c, Batches batches) {                   \
    each_product(s, a, b, c, batches, [&](const Matrix<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_fma<rows, columns, depth>(a, a_inner, b, b_inner, c, s.m, s.n, first, blockIdx.y, s.splits > 1);      \
    });                                                                                                           \
  }

MATMUL(matmul_large_f32, float, 128, 128, 8)
MATMUL(matmul_small_f32, float, 64, 64, 16)
MATMUL(matmul_small_f16, half, 64, 64, 16)
MATMUL(matmul_small_bf16, bfloat16, 64, 64, 16)
MATMUL(matmul_small_f64, double, 64, 64, 8)

// add_splits adds up the sums of a product's splits, in order.
template <class T> DEVICE void add_splits(const typename Wide<T>::type *partial, T *out, u64 splits, u64 n) {
  GRID_LOOP(i, n) {
    typename Wide<T>::type sum = partial[i];
    for (u64 s = 1; s < splits; s++) sum += partial[s * n + i];
    out[i] = (T)sum;
  }
}

KERNEL(add_splits_f32)(const float *partial, float *out, u64 splits, u64 n) { add_splits(partial, out, splits, n); }
KERNEL(add_splits_f64)(const double *partial, double *out, u64 splits, u64 n) { add_splits(partial, out, splits, n); }
KERNEL(add_splits_f16)(const float *partial, half *out, u64 splits, u64 n) { add_splits(partial, out, splits, n); }
KERNEL(add_splits_bf16)(const float *partial, bfloat16 *out, u64 splits, u64 n) { add_splits(partial, out, splits, n); }
