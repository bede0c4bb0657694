// Convolutions by multiply-adds: see conv.cuh and gemm.cuh.
#include "conv.cuh"
#include "gemm.cuh"

constexpr int TILE = 64;

#define CONV(type, T, depth)                                                                                       \
  GEMM_KERNEL(FMA_THREADS, conv_forward_##type)                                                                    \
  (Sizes s, Patches<T> a, Matrix<T> b, Output<T> c, Steps steps) {                                                 \
    each_group(s, a, b, c, steps, [&](const Patches<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) {    \
      gemm_fma<TILE, TILE, depth>(a, true, b, false, c, s.m, s.n, first, blockIdx.y, s.splits > 1);                \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(FMA_THREADS, conv_filter_##type)                                                                     \
  (Sizes s, PatchesTransposed<T> a, Matrix<T> b, Output<T> c, Steps steps) {                                       \
    each_group(s, a, b, c, steps, [&](const PatchesTransposed<T> &a, const Matrix<T> &b, const Output<T> &c, u32 first) { \
      gemm_fma<TILE, TILE, depth>(a, false, b, false, c, s.m, s.n, first, blockIdx.y, s.splits > 1);               \
    });                                                                                                            \
  }                                                                                                                \
  GEMM_KERNEL(FMA_THREADS, conv_input_##type)                                                                      \
  (Sizes s, Patches<T> a, FilterBack<T> b, PixelOutput<T> c, Steps steps, Windows w) {                             \
    each_phase<TILE, TILE>(s, a, b, c, steps, w, [&](const Patches<T> &a, const FilterBack<T> &b, const PixelOutput<T> &c, u64 m, u32 first) { \
      gemm_fma<TILE, TILE, depth>(a, true, b, true, c, m, s.n, first, blockIdx.y, s.splits > 1);                   \
    });                                                                                                            \
  }

CONV(f32, float, 16)
CONV(f64, double, 8)
CONV(f16, half, 16)
CONV(bf16, bfloat16, 16)
