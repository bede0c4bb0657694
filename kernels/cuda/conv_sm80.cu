// Convolutions by tensor cores: see conv.cuh and gemm_sm80.cuh.
#include "conv.cuh"
#include "gemm_sm80.cuh"

constexpr int ROWS = 128, COLUMNS = 64, HIGH = 4, THREADS = ROWS / (HIGH * 16) * COLUMNS;

#define CONV(type, T)                                                                                              \
  GEMM_KERNEL(THREADS, conv_forward_mma_##type)                                                                    \
  (Sizes s, Patches<T> a, Matrix<T> b, Output<T> c, Steps steps) {                                                 \
    each_group(s, a, b, c, steps, [&](const Patches<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) {    \
      gemm_mma<ROWS, COLUMNS, HIGH, true, false>(a, b, c, s.m, s.n, first, blockIdx.y, s.splits > 1);              \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(THREADS, conv_filter_mma_##type)                                                                     \
  (Sizes s, PatchesTransposed<T> a, Matrix<T> b, Output<T> c, Steps steps) {                                       \
    each_group(s, a, b, c, steps, [&](const PatchesTransposed<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_mma<ROWS, COLUMNS, HIGH, false, false>(a, b, c, s.m, s.n, first, blockIdx.y, s.splits > 1);             \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(THREADS, conv_input_mma_##type)                                                                      \
  (Sizes s, Patches<T> a, FilterBack<T> b, PixelOutput<T> c, Steps steps, Windows w) {                             \
    each_phase<ROWS, COLUMNS>(s, a, b, c, steps, w, [&](const Patches<T> &a, const FilterBack<T> &b, const PixelOutput<T> &c, u64 m, u32 first) { \
      gemm_mma<ROWS, COLUMNS, HIGH, true, true>(a, b, c, m, s.n, first, blockIdx.y, s.splits > 1);                 \
    });                                                                                                            \
  }

CONV(f32, float)
CONV(f16, half)
CONV(bf16, bfloat16)
