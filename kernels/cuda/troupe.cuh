// The common header of all kernels. A kernel's source is compiled twice: by clang to PTX, without CUDA's own headers, and by g++ for the
// tests' fake driver, for which fake_kernel.h provides the rest.
//
//   #include "troupe.cuh"
//   KERNEL(add_f32)(const float *a, const float *b, float *out, u64 n) {
//     GRID_LOOP(i, n) out[i] = a[i] + b[i];
//   }
//
// Each parameter is 8 bytes wide (pointer, u64, i64, double) or a struct of such. Warps are always full: blocks that shuffle, vote or
// multiply matrices have a multiple of 32 threads, and all 32 lanes reach these operations. __shared__ variables are static. DYNAMIC_SHARED
// returns the memory that the launch requested.
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#ifdef __CUDA__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __attribute__((always_inline)) inline
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#include <__clang_cuda_builtin_vars.h>
#else
#include <fake_kernel.h>
#endif

// DEVICE declares a function that kernels call, CONSTANT a constant table.
#define DEVICE static __device__ __forceinline__
#define CONSTANT static __constant__ const

// KERNEL(name)(parameters) {...} defines a kernel. KERNEL_OF(threads, name) defines one whose blocks have at most the given number of
// threads, which leaves the compiler more registers for each.
#define KERNEL(name) extern "C" __global__ void name
#define KERNEL_OF(threads, name) extern "C" __global__ void __launch_bounds__(threads) name

// GRID_LOOP loops over each index i below n once, across all threads of a one-dimensional grid.
#define GRID_LOOP(i, n) for (u64 i = grid_index(), grid_n_ = (n); i < grid_n_; i += grid_threads())
DEVICE u64 grid_index() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u64 grid_threads() { return (u64)gridDim.x * blockDim.x; }

// BITS_AS reads a value's bits as another type of the same size.
#define BITS_AS(type, value) __builtin_bit_cast(type, value)

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(8) uint2 { u32 x, y; };
struct alignas(16) uint4 { u32 x, y, z, w; };

template <class T> DEVICE T min(T a, T b) { return b < a ? b : a; }
template <class T> DEVICE T max(T a, T b) { return a < b ? b : a; }

#ifdef __CUDA__

// Math functions from libdevice, for float with and without the suffix f, and for double.
#define MATH_1(name, f32, f64)                            \
  extern "C" __device__ float f32(float);                 \
  extern "C" __device__ double f64(double);               \
  DEVICE float name##f(float x) { return f32(x); }        \
  DEVICE float name(float x) { return f32(x); }           \
  DEVICE double name(double x) { return f64(x); }
#define MATH_2(name, f32, f64)                                        \
  extern "C" __device__ float f32(float, float);                      \
  extern "C" __device__ double f64(double, double);                   \
  DEVICE float name##f(float x, float y) { return f32(x, y); }        \
  DEVICE float name(float x, float y) { return f32(x, y); }           \
  DEVICE double name(double x, double y) { return f64(x, y); }
#define LIBDEVICE_1(name) MATH_1(name, __nv_##name##f, __nv_##name)
#define LIBDEVICE_2(name) MATH_2(name, __nv_##name##f, __nv_##name)
LIBDEVICE_1(exp) LIBDEVICE_1(exp2) LIBDEVICE_1(expm1) LIBDEVICE_1(log) LIBDEVICE_1(log2)
LIBDEVICE_1(log10) LIBDEVICE_1(log1p) LIBDEVICE_1(rsqrt) LIBDEVICE_1(cbrt) LIBDEVICE_1(sin)
LIBDEVICE_1(cos) LIBDEVICE_1(tan) LIBDEVICE_1(asin) LIBDEVICE_1(acos) LIBDEVICE_1(atan)
LIBDEVICE_1(sinh) LIBDEVICE_1(cosh) LIBDEVICE_1(tanh) LIBDEVICE_1(asinh) LIBDEVICE_1(acosh)
LIBDEVICE_1(atanh) LIBDEVICE_1(erf) LIBDEVICE_1(erfc) LIBDEVICE_1(erfinv) LIBDEVICE_1(lgamma)
LIBDEVICE_1(tgamma) LIBDEVICE_1(floor) LIBDEVICE_1(ceil) LIBDEVICE_1(rint) LIBDEVICE_1(round)
LIBDEVICE_1(trunc) LIBDEVICE_1(fabs) LIBDEVICE_2(pow) LIBDEVICE_2(fmod) LIBDEVICE_2(atan2)
LIBDEVICE_2(hypot) LIBDEVICE_2(copysign) LIBDEVICE_2(nextafter) LIBDEVICE_2(fmin) LIBDEVICE_2(fmax)
MATH_1(sqrt, __nv_fsqrt_rn, __nv_dsqrt_rn)
DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
DEVICE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
extern "C" __device__ float __nv_ldexpf(float, int);
extern "C" __device__ double __nv_ldexp(double, int);
DEVICE float ldexpf(float x, int e) { return __nv_ldexpf(x, e); }
DEVICE float ldexp(float x, int e) { return __nv_ldexpf(x, e); }
DEVICE double ldexp(double x, int e) { return __nv_ldexp(x, e); }
DEVICE int abs(int x) { return x < 0 ? -x : x; }
DEVICE i64 abs(i64 x) { return x < 0 ? -x : x; }
DEVICE float abs(float x) { return __nv_fabsf(x); }
DEVICE double abs(double x) { return __nv_fabs(x); }
template <class T> DEVICE bool isnan(T x) { return x != x; }
DEVICE bool isinf(float x) { return __nv_fabsf(x) == __builtin_inff(); }
DEVICE bool isinf(double x) { return __nv_fabs(x) == __builtin_inf(); }
DEVICE bool isfinite(float x) { return __nv_fabsf(x) < __builtin_inff(); }
DEVICE bool isfinite(double x) { return __nv_fabs(x) < __builtin_inf(); }
DEVICE bool signbit(float x) { return BITS_AS(u32, x) >> 31; }
DEVICE bool signbit(double x) { return BITS_AS(u64, x) >> 63; }
DEVICE int __clz(u32 x) { return x ? __builtin_clz(x) : 32; }
DEVICE int __clzll(u64 x) { return x ? __builtin_clzll(x) : 64; }
DEVICE int __popc(u32 x) { return __builtin_popcount(x); }
DEVICE int __popcll(u64 x) { return __builtin_popcountll(x); }
DEVICE u32 __umulhi(u32 a, u32 b) { return (u64)a * b >> 32; }
DEVICE u64 __umul64hi(u64 a, u64 b) { return (unsigned __int128)a * b >> 64; }

// Lanes of a warp: __syncthreads() is the compiler's own.
constexpr u32 ALL_LANES = 0xffffffff;
DEVICE void __syncwarp(u32 mask = ALL_LANES) { __nvvm_bar_warp_sync(mask); }
DEVICE u32 __ballot_sync(u32 mask, bool p) { return __nvvm_vote_ballot_sync(mask, p); }
DEVICE bool __any_sync(u32 mask, bool p) { return __nvvm_vote_any_sync(mask, p); }
DEVICE bool __all_sync(u32 mask, bool p) { return __nvvm_vote_all_sync(mask, p); }
#define SHUFFLE(name, builtin, clamp)                                                            \
  template <class T> DEVICE T name(u32 mask, T value, int lane) {                                \
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes give each other 4 or 8 bytes");       \
    if constexpr (sizeof(T) == 4) return BITS_AS(T, builtin(mask, BITS_AS(int, value), lane, clamp)); \
    else {                                                                                       \
      u64 bits = BITS_AS(u64, value);                                                            \
      u32 low = builtin(mask, (int)(u32)bits, lane, clamp);                                      \
      u32 high = builtin(mask, (int)(u32)(bits >> 32), lane, clamp);                             \
      return BITS_AS(T, (u64)high << 32 | low);                                                  \
    }                                                                                            \
  }
SHUFFLE(__shfl_sync, __nvvm_shfl_sync_idx_i32, 31)
SHUFFLE(__shfl_up_sync, __nvvm_shfl_sync_up_i32, 0)
SHUFFLE(__shfl_down_sync, __nvvm_shfl_sync_down_i32, 31)
SHUFFLE(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, 31)
DEVICE void __threadfence() { __nvvm_membar_gl(); }

// Atomics return the previous value.
DEVICE int atomicAdd(int *p, int v) { return __nvvm_atom_add_gen_i(p, v); }
DEVICE u32 atomicAdd(u32 *p, u32 v) { return __nvvm_atom_add_gen_i((int *)p, (int)v); }
DEVICE i64 atomicAdd(i64 *p, i64 v) { return __nvvm_atom_add_gen_ll(p, v); }
DEVICE u64 atomicAdd(u64 *p, u64 v) { return __nvvm_atom_add_gen_ll((i64 *)p, (i64)v); }
DEVICE float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }
DEVICE double atomicAdd(double *p, double v) { return __nvvm_atom_add_gen_d(p, v); }
DEVICE int atomicMax(int *p, int v) { return __nvvm_atom_max_gen_i(p, v); }
DEVICE u32 atomicMax(u32 *p, u32 v) { return __nvvm_atom_max_gen_ui(p, v); }
DEVICE i64 atomicMax(i64 *p, i64 v) { return __nvvm_atom_max_gen_ll(p, v); }
DEVICE u64 atomicMax(u64 *p, u64 v) { return __nvvm_atom_max_gen_ull(p, v); }
DEVICE int atomicMin(int *p, int v) { return __nvvm_atom_min_gen_i(p, v); }
DEVICE u32 atomicMin(u32 *p, u32 v) { return __nvvm_atom_min_gen_ui(p, v); }
DEVICE i64 atomicMin(i64 *p, i64 v) { return __nvvm_atom_min_gen_ll(p, v); }
DEVICE u64 atomicMin(u64 *p, u64 v) { return __nvvm_atom_min_gen_ull(p, v); }
DEVICE u32 atomicAnd(u32 *p, u32 v) { return __nvvm_atom_and_gen_i((int *)p, (int)v); }
DEVICE u32 atomicOr(u32 *p, u32 v) { return __nvvm_atom_or_gen_i((int *)p, (int)v); }
DEVICE u32 atomicExch(u32 *p, u32 v) { return __nvvm_atom_xchg_gen_i((int *)p, (int)v); }
DEVICE u64 atomicExch(u64 *p, u64 v) { return __nvvm_atom_xchg_gen_ll((i64 *)p, (i64)v); }
DEVICE int atomicCAS(int *p, int old, int v) { return __nvvm_atom_cas_gen_i(p, old, v); }
DEVICE u32 atomicCAS(u32 *p, u32 old, u32 v) { return __nvvm_atom_cas_gen_i((int *)p, (int)old, (int)v); }
DEVICE u64 atomicCAS(u64 *p, u64 old, u64 v) { return __nvvm_atom_cas_gen_ll((i64 *)p, (i64)old, (i64)v); }

// Half precision, rounded to nearest even.
DEVICE u16 half_bits(float f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
DEVICE float half_value(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

// DYNAMIC_SHARED declares, in a kernel, a pointer to the shared memory that its launch requested.
extern __shared__ __attribute__((aligned(16))) unsigned char dynamic_shared_memory[];
#define DYNAMIC_SHARED(type, name) type *name = (type *)dynamic_shared_memory

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define SM80 1
// tf32_bits rounds to the 10 bits of mantissa that mma_tf32 reads.
DEVICE u32 tf32_bits(float f) {
  u32 b;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(b) : "f"(f));
  return b;
}
#define MMA(name, shape_and_types)                                                                 \
  DEVICE void name(float d[4], const u32 a[4], const u32 b[2]) {                                   \
    asm volatile("mma.sync.aligned." shape_and_types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));               \
  }
DEVICE u32 shared_address(const void *p) { return (u32)(u64)(const __attribute__((address_space(3))) void *)p; }
#define LDMATRIX(name, form)                                                                       \
  DEVICE void name(u32 r[4], const void *row) {                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0,%1,%2,%3}, [%4];"            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)) : "memory"); \
  }
MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
MMA(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
LDMATRIX(ldmatrix_x4, "")
LDMATRIX(ldmatrix_x4_trans, ".trans")
// copy_async starts a copy of 4, 8 or 16 aligned bytes from global to shared memory. If valid is not set, it does not read from and writes
// zeros. copy_async_wait<n> waits until at most the n latest groups of the thread's own copies are in flight.
template <int bytes> DEVICE void copy_async(void *shared, const void *from, bool valid) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
               :: "r"(shared_address(shared)), "l"(from), "n"(bytes), "r"(valid ? bytes : 0) : "memory");
}
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int groups> DEVICE void copy_async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory"); }
#endif

#endif // __CUDA__

// On sm_80 (which defines SM80, as the fake does), a warp multiplies matrices: it adds A·B to D. With g = lane/4 and t = lane%4, element
// d[i] is D[g + 8*(i/2)][2*t + i%2], where D is 16x8.
//
// mma_tf32, with A 16x8 and B 8x8: a[i] is A[g + 8*(i%2)][t + 4*(i/2)], b[i] is B[t + 4*i][g].
//
// mma_f16 and mma_bf16, with A 16x16 and B 16x8: a[i] holds A[g + 8*(i%2)][2*t + 8*(i/2)] and, in its upper half, the next element of the
// row; b[i] holds B[2*t + 8*i][g] and the next element of the column.
//
// ldmatrix_x4(r, row) loads four 8x8 matrices of 16-bit elements. Lane 8*m+i points to row i of matrix m, 16 aligned bytes in shared
// memory. r[m] receives elements [g][2*t] and [g][2*t+1] of matrix m or, with ldmatrix_x4_trans, of its transpose.

struct half {
  u16 bits;
  half() = default;
  __device__ explicit half(float f) : bits(half_bits(f)) {}
  __device__ operator float() const { return half_value(bits); }
};

// bfloat16 is the upper half of a float, rounded to nearest even. NaN stays NaN.
struct bfloat16 {
  u16 bits;
  bfloat16() = default;
  __device__ explicit bfloat16(float f) {
    u32 b = BITS_AS(u32, f);
    bits = f != f ? (b >> 16 | 0x40) : (b + 0x7fff + (b >> 16 & 1)) >> 16;
  }
  __device__ operator float() const { return BITS_AS(float, (u32)bits << 16); }
};

// Wide<T>::type is the type to compute in: float for half types, else T.
template <class T> struct Wide { typedef T type; };
template <> struct Wide<half> { typedef float type; };
template <> struct Wide<bfloat16> { typedef float type; };

// atomicAdd for 2-byte floats changes the aligned word that holds them.
template <class H> DEVICE float atomicAddHalf(H *p, float v) {
  u32 *word = (u32 *)((u64)p & ~3ull);
  int shift = (u64)p & 2 ? 16 : 0;
  for (u32 old = *word;;) {
    H was;
    was.bits = (u16)(old >> shift);
    u32 next = (old & ~(0xffffu << shift)) | (u32)H((float)was + v).bits << shift;
    u32 seen = atomicCAS(word, old, next);
    if (seen == old) return was;
    old = seen;
  }
}
DEVICE float atomicAdd(half *p, float v) { return atomicAddHalf(p, v); }
DEVICE float atomicAdd(bfloat16 *p, float v) { return atomicAddHalf(p, v); }
