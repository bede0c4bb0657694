// Matrix products by tensor cores: see gemm_sm80.cuh.
#include "batch.cuh"
#include "gemm_sm80.cuh"

// Names end in the operands' layouts: n as stored, t transposed. A as stored, and B transposed, have neighbours along k that are adjacent
// in memory. Products of two transposed operands are rare.
#define MATMUL(name, T, rows, columns, high, a_inner, b_inner)                                                    \
  GEMM_KERNEL(rows / (high * 16) * columns, name)                                                                 \
  (Sizes s, Matrix<T> a, Matrix<T> b, Output<T> c, Batches batches) {                                             \
    each_product(s, a, b, c, batches, [&](const Matrix<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_mma<rows, columns, high, a_inner, b_inner>(a, b, c, s.m, s.n, first, blockIdx.y, s.splits > 1);       \
    });                                                                                                           \
  }

#define MATMULS(type, T)                                             \
  MATMUL(matmul_mma_large_nn_##type, T, 128, 128, 4, true, false)    \
  MATMUL(matmul_mma_large_nt_##type, T, 128, 128, 4, true, true)     \
  MATMUL(matmul_mma_large_tn_##type, T, 128, 128, 4, false, false)   \
  MATMUL(matmul_mma_small_nn_##type, T, 64, 64, 2, true, false)      \
  MATMUL(matmul_mma_small_nt_##type, T, 64, 64, 2, true, true)       \
  MATMUL(matmul_mma_small_tn_##type, T, 64, 64, 2, false, false)     \
  MATMUL(matmul_mma_small_tt_##type, T, 64, 64, 2, false, true)

MATMULS(f32, float)
MATMULS(f16, half)
MATMULS(bf16, bfloat16)
