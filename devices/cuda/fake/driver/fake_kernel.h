// What troupe.cuh includes when g++ compiles kernels for the fake driver: the same names as on a card, with one kernel thread running at a
// time. grid.cc runs the threads.
#pragma once
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define __global__
#define __device__
#define __shared__ static
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define SM80 1
#define __syncthreads() fake_syncthreads(__LINE__)
#define DYNAMIC_SHARED(type, name) type *name = (type *)fake_dynamic_shared

#pragma GCC visibility push(hidden)

struct FakeIndex { unsigned x, y, z; };
// They change only between threads, never within one.
extern const FakeIndex threadIdx __asm__("fake_thread_index");
extern const FakeIndex blockIdx __asm__("fake_block_index");
extern const FakeIndex blockDim __asm__("fake_block_size");
extern const FakeIndex gridDim __asm__("fake_grid_size");
extern "C" unsigned char fake_dynamic_shared[];

// fake_fault ends the launch with a sticky error and writes the reason to standard error.
enum FakeFault { FAKE_ILLEGAL_ADDRESS = 700, FAKE_MISALIGNED = 716, FAKE_LAUNCH_FAILED = 719 };
[[noreturn]] void fake_fault(FakeFault code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void fake_syncthreads(int line);
int fake_lane();
// fake_warp waits until all lanes of the warp have arrived with the same what. The last to arrive calls act with the values of all lanes.
typedef void FakeAct(void *of_lane[32]);
void fake_warp(const char *what, u32 mask, void *mine, FakeAct *act);
// The calling thread's asynchronous copies: they are done when they are waited for, not before.
void fake_copy_async(void *to, const void *from, unsigned bytes, bool valid);
void fake_copy_async_commit();
void fake_copy_async_wait(unsigned groups);
// Products of matrices, in mma.cc.
void fake_mma_tf32(void *of_lane[32]);
void fake_mma_f16(void *of_lane[32]);
void fake_mma_bf16(void *of_lane[32]);
struct FakeMma { float *d; const u32 *a, *b; };
void fake_ldmatrix(void *of_lane[32]);
void fake_ldmatrix_trans(void *of_lane[32]);
struct FakeLdmatrix { u32 *r; const void *row; };
// Half precision, in half.cc.
u16 half_bits(float f);
float half_value(u16 h);
double erfinv(double x);

#pragma GCC visibility pop

#define FAKE_DEVICE static inline
FAKE_DEVICE float erfinv(float x) { return (float)erfinv((double)x); }
FAKE_DEVICE float erfinvf(float x) { return erfinv(x); }
FAKE_DEVICE float rsqrtf(float x) { return 1 / sqrtf(x); }
FAKE_DEVICE float rsqrt(float x) { return 1 / sqrtf(x); }
FAKE_DEVICE double rsqrt(double x) { return 1 / sqrt(x); }

FAKE_DEVICE int __clz(u32 x) { return x ? __builtin_clz(x) : 32; }
FAKE_DEVICE int __clzll(u64 x) { return x ? __builtin_clzll(x) : 64; }
FAKE_DEVICE int __popc(u32 x) { return __builtin_popcount(x); }
FAKE_DEVICE int __popcll(u64 x) { return __builtin_popcountll(x); }
FAKE_DEVICE u32 __umulhi(u32 a, u32 b) { return (u64)a * b >> 32; }
FAKE_DEVICE u64 __umul64hi(u64 a, u64 b) { return (unsigned __int128)a * b >> 64; }

constexpr u32 ALL_LANES = 0xffffffff;
FAKE_DEVICE void __threadfence() {}
FAKE_DEVICE void __syncwarp(u32 mask = ALL_LANES) { fake_warp("__syncwarp", mask, nullptr, [](void **) {}); }

struct FakeVote { bool mine; u32 all; };
FAKE_DEVICE u32 __ballot_sync(u32 mask, bool p) {
  FakeVote v{p, 0};
  fake_warp("a vote", mask, &v, [](void **of_lane) {
    u32 all = 0;
    for (int i = 0; i < 32; i++) all |= (u32)((FakeVote *)of_lane[i])->mine << i;
    for (int i = 0; i < 32; i++) ((FakeVote *)of_lane[i])->all = all;
  });
  return v.all;
}
FAKE_DEVICE bool __any_sync(u32 mask, bool p) { return __ballot_sync(mask, p) != 0; }
FAKE_DEVICE bool __all_sync(u32 mask, bool p) { return __ballot_sync(mask, p) == ALL_LANES; }

template <class T> struct FakeShuffle { T mine; int from; T got; };
template <class T> FAKE_DEVICE T fake_shuffle(u32 mask, T value, int from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes give each other 4 or 8 bytes");
  FakeShuffle<T> s{value, from, value};
  fake_warp("a shuffle", mask, &s, [](void **of_lane) {
    for (int i = 0; i < 32; i++) {
      auto s = (FakeShuffle<T> *)of_lane[i];
      s->got = ((FakeShuffle<T> *)of_lane[s->from])->mine;
    }
  });
  return s.got;
}
template <class T> FAKE_DEVICE T __shfl_sync(u32 mask, T v, int lane) { return fake_shuffle(mask, v, lane & 31); }
template <class T> FAKE_DEVICE T __shfl_up_sync(u32 mask, T v, int by) {
  int lane = fake_lane();
  return fake_shuffle(mask, v, by > lane ? lane : lane - by);
}
template <class T> FAKE_DEVICE T __shfl_down_sync(u32 mask, T v, int by) {
  int lane = fake_lane();
  return fake_shuffle(mask, v, lane + by > 31 ? lane : lane + by);
}
template <class T> FAKE_DEVICE T __shfl_xor_sync(u32 mask, T v, int with) {
  return fake_shuffle(mask, v, (fake_lane() ^ with) & 31);
}

// Only one thread runs at a time, so atomics are plain operations.
#define FAKE_ATOMIC(type, name, result) \
  FAKE_DEVICE type name(type *p, type v) { type was = *p; *p = result; return was; }
#define FAKE_ATOMICS(type)                          \
  FAKE_ATOMIC(type, atomicMax, was < v ? v : was)   \
  FAKE_ATOMIC(type, atomicMin, v < was ? v : was)
FAKE_ATOMICS(int) FAKE_ATOMICS(u32) FAKE_ATOMICS(i64) FAKE_ATOMICS(u64)
FAKE_ATOMIC(int, atomicAdd, (int)((u32)was + (u32)v)) FAKE_ATOMIC(u32, atomicAdd, was + v)
FAKE_ATOMIC(i64, atomicAdd, (i64)((u64)was + (u64)v)) FAKE_ATOMIC(u64, atomicAdd, was + v)
FAKE_ATOMIC(float, atomicAdd, was + v) FAKE_ATOMIC(double, atomicAdd, was + v)
FAKE_ATOMIC(u32, atomicAnd, was & v) FAKE_ATOMIC(u32, atomicOr, was | v)
FAKE_ATOMIC(u32, atomicExch, v) FAKE_ATOMIC(u64, atomicExch, v)
#define FAKE_CAS(type) \
  FAKE_DEVICE type atomicCAS(type *p, type old, type v) { type was = *p; if (was == old) *p = v; return was; }
FAKE_CAS(int) FAKE_CAS(u32) FAKE_CAS(u64)

FAKE_DEVICE u32 tf32_bits(float f) {
  u32 b = __builtin_bit_cast(u32, f);
  return f != f ? 0x7fffffff : (b + 0x1000) & ~0x1fffu; // to nearest, ties away from zero
}
#define FAKE_MMA(name)                                                  \
  FAKE_DEVICE void mma_##name(float d[4], const u32 a[4], const u32 b[2]) { \
    FakeMma m{d, a, b};                                                 \
    fake_warp("mma_" #name, ALL_LANES, &m, fake_mma_##name);            \
  }
FAKE_MMA(tf32) FAKE_MMA(f16) FAKE_MMA(bf16)
#define FAKE_LDMATRIX(name, act)                        \
  FAKE_DEVICE void name(u32 r[4], const void *row) {    \
    FakeLdmatrix m{r, row};                             \
    fake_warp(#name, ALL_LANES, &m, act);               \
  }
FAKE_LDMATRIX(ldmatrix_x4, fake_ldmatrix)
FAKE_LDMATRIX(ldmatrix_x4_trans, fake_ldmatrix_trans)
template <int bytes> FAKE_DEVICE void copy_async(void *shared, const void *from, bool valid) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  fake_copy_async(shared, from, bytes, valid);
}
FAKE_DEVICE void copy_async_commit() { fake_copy_async_commit(); }
template <int groups> FAKE_DEVICE void copy_async_wait() { fake_copy_async_wait(groups); }
