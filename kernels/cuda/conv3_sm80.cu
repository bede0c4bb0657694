// Convolutions over volumes by tensor cores: see volume.cuh and gemm_sm80.cuh.
#include "volume.cuh"
#include "gemm_sm80.cuh"

constexpr int ROWS = 128, COLUMNS = 64, HIGH = 4, THREADS = ROWS / (HIGH * 16) * COLUMNS;

#define CONV(type, T)                                                                                              \
  GEMM_KERNEL(THREADS, conv3_forward_mma_##type)                                                                   \
  (Sizes s, Windows3<T, true> a, Matrix<T> b, Output<T> c, Steps steps) {                                          \
    each_group(s, a, b, c, steps, [&](const Windows3<T, true> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_mma<ROWS, COLUMNS, HIGH, true, false>(a, b, c, s.m, s.n, first, blockIdx.y, s.splits > 1);              \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(THREADS, conv3_filter_mma_##type)                                                                    \
  (Sizes s, Windows3Transposed<T> a, Matrix<T> b, Output<T> c, Steps steps) {                                      \
    each_group(s, a, b, c, steps, [&](const Windows3Transposed<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_mma<ROWS, COLUMNS, HIGH, false, false>(a, b, c, s.m, s.n, first, blockIdx.y, s.splits > 1);             \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(THREADS, conv3_input_mma_##type)                                                                     \
  (Sizes s, Windows3<T, false> a, FilterBack<T> b, Output<T> c, Steps steps) {                                     \
    each_group(s, a, b, c, steps, [&](const Windows3<T, false> &a, const FilterBack<T> &b, const Output<T> &c, u32 first) { \
      gemm_mma<ROWS, COLUMNS, HIGH, true, true>(a, b, c, s.m, s.n, first, blockIdx.y, s.splits > 1);               \
    });                                                                                                            \
  }

CONV(f32, float)
CONV(f16, half)
CONV(bf16, bfloat16)
