// Convolutions over volumes by multiply-adds: see volume.cuh and gemm.cuh.
#include "volume.cuh"
#include "gemm.cuh"

constexpr int TILE = 64;

#define CONV(type, T, depth)                                                                                       \
  GEMM_KERNEL(FMA_THREADS, conv3_forward_##type)                                                                   \
  (Sizes s, Windows3<T, true> a, Matrix<T> b, Output<T> c, Steps steps) {                                          \
    each_group(s, a, b, c, steps, [&](const Windows3<T, true> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_fma<TILE, TILE, depth>(a, true, b, false, c, s.m, s.n, first, blockIdx.y, s.splits > 1);                \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(FMA_THREADS, conv3_filter_##type)                                                                    \
  (Sizes s, Windows3Transposed<T> a, Matrix<T> b, Output<T> c, Steps steps) {                                      \
    each_group(s, a, b, c, steps, [&](const Windows3Transposed<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_fma<TILE, TILE, depth>(a, false, b, false, c, s.m, s.n, first, blockIdx.y, s.splits > 1);               \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(FMA_THREADS, conv3_input_##type)                                                                     \
  (Sizes s, Windows3<T, false> a, FilterBack<T> b, Output<T> c, Steps steps) {                                     \
    each_group(s, a, b, c, steps, [&](const Windows3<T, false> &a, const FilterBack<T> &b, const Output<T> &c, u32 first) { \
      gemm_fma<TILE, TILE, depth>(a, true, b, true, c, s.m, s.n, first, blockIdx.y, s.splits > 1);                 \
    });                                                                                                            \
  }

CONV(f32, float, 16)
CONV(f64, double, 8)
CONV(f16, half, 16)
CONV(bf16, bfloat16, 16)
