// Correct and faulty kernels, for the checks of the fake driver.
#include "troupe.cuh"

KERNEL(copy_u32)(const u32 *from, u32 *to, u64 n) {
  GRID_LOOP(i, n) to[i] = from[i];
}

KERNEL(add_f32)(const float *a, const float *b, float *out, u64 n) {
  GRID_LOOP(i, n) out[i] = a[i] + b[i];
}

struct Pair { u64 first; double second; };
KERNEL(parameters)(u64 *out, Pair p, double x, i64 y) {
  out[0] = p.first;
  out[1] = BITS_AS(u64, p.second);
  out[2] = BITS_AS(u64, x);
  out[3] = BITS_AS(u64, y);
}

KERNEL(indices)(u32 *count) {
  u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  atomicAdd(&count[block * blockDim.x * blockDim.y * blockDim.z + thread], 1u);
}

KERNEL_OF(64, at_most_64)() {}

// Barriers.
template <bool wait> DEVICE void reverse_block(u32 *p) {
  __shared__ u32 all[256];
  all[threadIdx.x] = p[threadIdx.x];
  if (wait) __syncthreads();
  p[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}
KERNEL(reverse)(u32 *p) { reverse_block<true>(p); }
KERNEL(reverse_without_barrier)(u32 *p) { reverse_block<false>(p); }
KERNEL(barrier_after_return)(u32 *p) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  p[threadIdx.x] = threadIdx.x;
}
KERNEL(two_barriers)() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
KERNEL(sum_by_tree)(const float *in, float *out) {
  __shared__ float part[256];
  part[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
  for (u32 half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
KERNEL(stale_shared)(float *out) {
  __shared__ float kept;
  out[blockIdx.x] = kept;
  kept = 1;
}

// Lanes.
KERNEL(shuffles)(u32 *out, double *wide) {
  u32 lane = threadIdx.x % 32, *o = out + 8 * threadIdx.x;
  o[0] = __shfl_sync(ALL_LANES, threadIdx.x, 5);
  o[1] = __shfl_up_sync(ALL_LANES, threadIdx.x, 3);
  o[2] = __shfl_down_sync(ALL_LANES, threadIdx.x, 3);
  o[3] = __shfl_xor_sync(ALL_LANES, threadIdx.x, 17);
  o[4] = __ballot_sync(ALL_LANES, lane % 3 == 0);
  o[5] = __any_sync(ALL_LANES, threadIdx.x == 40);
  o[6] = __all_sync(ALL_LANES, threadIdx.x < 32);
  double sum = threadIdx.x;
  for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, by);
  wide[threadIdx.x] = sum;
}
KERNEL(shuffle_after_return)(u32 *out) {
  if (threadIdx.x == 7) return;
  out[threadIdx.x] = __shfl_sync(ALL_LANES, threadIdx.x, 0);
}
KERNEL(shuffle_of_some)(u32 *out) { out[threadIdx.x] = __shfl_sync(0xffff, threadIdx.x, 0); }

// Matrices, laid out as described in troupe.cuh.
KERNEL(product_tf32)(const float *a, const float *b, float *d) {
  u32 g = threadIdx.x / 4, t = threadIdx.x % 4, fa[4], fb[2];
  float fd[4];
  for (u32 i = 0; i < 4; i++) fa[i] = tf32_bits(a[(g + 8 * (i % 2)) * 8 + t + 4 * (i / 2)]);
  for (u32 i = 0; i < 2; i++) fb[i] = tf32_bits(b[(t + 4 * i) * 8 + g]);
  for (u32 i = 0; i < 4; i++) fd[i] = d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  mma_tf32(fd, fa, fb);
  for (u32 i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = fd[i];
}
template <class H> DEVICE u32 two(float low, float high) { return H(low).bits | (u32)H(high).bits << 16; }
template <class H> DEVICE void load_16(u32 fa[4], u32 fb[2], const float *a, const float *b) {
  u32 g = threadIdx.x / 4, t = threadIdx.x % 4;
  for (u32 i = 0; i < 4; i++) {
    const float *p = a + (g + 8 * (i % 2)) * 16 + 2 * t + 8 * (i / 2);
    fa[i] = two<H>(p[0], p[1]);
  }
  for (u32 i = 0; i < 2; i++) {
    const float *p = b + (2 * t + 8 * i) * 8 + g;
    fb[i] = two<H>(p[0], p[8]);
  }
}
#define PRODUCT(H, name, mma)                                                             \
  KERNEL(name)(const float *a, const float *b, float *d) {                                \
    u32 g = threadIdx.x / 4, t = threadIdx.x % 4, fa[4], fb[2];                           \
    float fd[4];                                                                          \
    load_16<H>(fa, fb, a, b);                                                             \
    for (u32 i = 0; i < 4; i++) fd[i] = d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];         \
    mma(fd, fa, fb);                                                                      \
    for (u32 i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = fd[i];         \
  }
PRODUCT(half, product_f16, mma_f16)
PRODUCT(bfloat16, product_bf16, mma_bf16)

// The same with ldmatrix: A by rows and B, which is also stored by rows, transposed.
KERNEL(product_ldmatrix)(const float *a, const float *b, float *d) {
  alignas(16) __shared__ half sa[16][16], sb[16][16];
  u32 lane = threadIdx.x, g = lane / 4, t = lane % 4, fa[4], fb[4];
  for (u32 i = lane; i < 256; i += 32) {
    sa[i / 16][i % 16] = half(a[i]);
    sb[i / 16][i % 16] = half(i % 16 < 8 ? b[i / 16 * 8 + i % 16] : 0);
  }
  __syncthreads();
  ldmatrix_x4(fa, &sa[lane % 16][lane / 16 * 8]);
  ldmatrix_x4_trans(fb, &sb[lane % 16][lane / 16 * 8]);
  float fd[4] = {};
  mma_f16(fd, fa, fb);
  for (u32 i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] += fd[i];
}

// Memory.
KERNEL(write_behind)(u32 *p, u64 n) { p[n] = 1; }
KERNEL(read_nowhere)(u32 *out) { out[0] = *(volatile u32 *)16; }
KERNEL(dynamic_reverse)(u32 *p, u64 n) {
  DYNAMIC_SHARED(u32, all);
  for (u64 i = threadIdx.x; i < n; i += blockDim.x) all[i] = p[i];
  __syncthreads();
  for (u64 i = threadIdx.x; i < n; i += blockDim.x) p[i] = all[n - 1 - i];
}
KERNEL(dynamic_beyond)(u64 n) {
  DYNAMIC_SHARED(u32, all);
  all[n] = 0;
}
KERNEL(copies)(const u32 *from, u32 *early, u32 *late) {
  alignas(16) __shared__ u32 to[4 * 32];
  u32 *mine = to + 4 * threadIdx.x;
  mine[0] = 7;
  copy_async<16>(mine, from + 4 * threadIdx.x, threadIdx.x % 2 == 0);
  copy_async_commit();
  early[threadIdx.x] = mine[0];
  copy_async_wait<0>();
  late[threadIdx.x] = mine[0];
}

// Numbers.
KERNEL(halves)(const float *in, u64 *half_bits_out, u64 *bfloat_bits_out, float *back, u64 n) {
  GRID_LOOP(i, n) {
    half_bits_out[i] = half(in[i]).bits;
    bfloat_bits_out[i] = bfloat16(in[i]).bits;
    back[i] = half(in[i]);
  }
}
KERNEL(atomics)(u32 *u, float *f, half *h, u64 *w) {
  atomicAdd(&u[0], 2u);
  atomicMax(&u[1], threadIdx.x);
  atomicAdd(f, 0.5f);
  atomicAdd(&h[threadIdx.x % 2], 1.f);
  for (u64 was = *w, seen;; was = seen) {
    seen = atomicCAS(w, was, was * 3 + 1);
    if (seen == was) break;
  }
}
