// Matrix products by tensor cores, for halves and for floats whose mantissas are rounded to 10 bits (TF32). Sums are floats. A block copies
// tiles of both operands, 64 bytes deep along k, into a ring in shared memory. Its warps multiply the tiles that have arrived while others
// are still being copied.
//
// A tile consists of chunks of 16 bytes, the unit of copies and of ldmatrix. If neighbours along k are adjacent in memory, the tile has
// four chunks per row. Otherwise it has a line for each k, whose chunks run along the outer index. Chunks are permuted (see place) to
// spread each access of a warp over all banks.
#pragma once
#include "operand.cuh"

constexpr int DEEP = 64, STAGES = 3; // bytes of a tile along k, and tiles in the ring

// Core selects the instruction for an element type.
template <class T> struct Core;
template <> struct Core<half> {
  static METHOD void mma(float *d, const u32 *a, const u32 *b) { mma_f16(d, a, b); }
};
template <> struct Core<bfloat16> {
  static METHOD void mma(float *d, const u32 *a, const u32 *b) { mma_bf16(d, a, b); }
};
template <> struct Core<float> {
  static METHOD void mma(float *d, const u32 *a, const u32 *b) { mma_tf32(d, a, b); }
};

// Ring holds an operand's tiles in shared memory.
template <class Op, int rows, int threads, bool along_inner> struct Ring {
  typedef typename Op::Element T;
  static constexpr int count = 16 / sizeof(T);             // elements of a chunk
  static constexpr int depth = DEEP / sizeof(T);           // k of a tile
  static constexpr int bytes = rows * DEEP;                // of a tile
  static constexpr int line = along_inner ? 4 : rows / count; // chunks side by side
  static constexpr int copies = bytes / 16 / threads, apart = threads / line;
  const Op &op;
  unsigned char *memory;
  u32 tile, chunk, start; // of this thread's first copy: its chunk in the line, and which line
  typename Op::Outer outer[along_inner ? copies : 1];

  METHOD Ring(const Op &op, unsigned char *memory, u32 tile)
      : op(op), memory(memory), tile(tile), chunk(threadIdx.x % line), start(threadIdx.x / line) {
    if constexpr (along_inner) {
#pragma unroll
      for (int i = 0; i < copies; i++) outer[i] = op.outer(tile + start + i * apart);
    } else {
      outer[0] = op.outer(tile + chunk * count);
    }
  }

  // place returns the offset of a chunk of a line.
  static METHOD u32 place(u32 line_of, u32 chunk) {
    if constexpr (along_inner) return line_of * 64 + (chunk ^ (line_of >> 1 & 3)) * 16;
    else if constexpr (sizeof(T) == 4) return line_of * line * 16 + (chunk ^ (line_of & 3) * 2) * 16;
    else return line_of * line * 16 + (chunk ^ (line_of & 7)) * 16;
  }

  // fill starts copying the tile at k.
  METHOD void fill(int stage, u32 k) {
    unsigned char *to = memory + stage * bytes;
    if (unknown(op.vector)) {
      typename Op::Inner inner;
      if constexpr (along_inner) inner = op.inner(k + chunk * count);
#pragma unroll
      for (int i = 0; i < copies; i++) {
        if constexpr (!along_inner) inner = op.inner(k + start + i * apart);
        const T *p = op.at(outer[along_inner ? i : 0], inner);
        copy_async<16>(to + place(start + i * apart, chunk), p ? p : op.data, p != nullptr);
      }
      return;
    }
#pragma unroll 1
    for (int i = 0; i < copies; i++) {
      Run<T, count> run;
#pragma unroll
      for (int e = 0; e < count; e++) {
        const T *p;
        if constexpr (along_inner) p = op.at(op.outer(tile + start + i * apart), op.inner(k + chunk * count + e));
        else p = op.at(op.outer(tile + chunk * count + e), op.inner(k + start + i * apart));
        run.v[e] = p ? *p : T(0.f);
      }
      set((T *)(to + place(start + i * apart, chunk)), run);
    }
  }

  // load reads the fragments of 16 rows for one step of 32 bytes along k. swap selects the order that mma requires for B.
  template <bool swap> METHOD void load(u32 r[4], int stage, u32 row, int step) const {
    const unsigned char *from = memory + stage * bytes;
    u32 lane = threadIdx.x % 32, m = lane / 8, i = lane % 8;
    u32 up = swap ? m / 2 : m % 2, right = swap ? m % 2 : m / 2; // of matrix m: along rows, along k
    if constexpr (along_inner) {
      ldmatrix_x4(r, from + place(row + up * 8 + i, step * 2 + right));
    } else if constexpr (sizeof(T) == 2) {
      ldmatrix_x4_trans(r, from + place(step * 16 + right * 8 + i, row / 8 + up));
    } else {
      u32 g = lane / 4, t = lane % 4;
#pragma unroll
      for (u32 j = 0; j < 4; j++) {
        u32 up = swap ? j / 2 : j % 2, right = swap ? j % 2 : j / 2, at = row + up * 8 + g;
        r[j] = *(const u32 *)(from + place(step * 8 + right * 4 + t, at / 4) + at % 4 * 4);
      }
    }
    if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int j = 0; j < 4; j++) r[j] = tf32_bits(BITS_AS(float, r[j]));
    }
  }
};

// gemm_mma computes the block's tile of a product, for k from first up to the operands' inners. Each warp computes 32 columns and high*16
// rows.
template <int rows, int columns, int high, bool a_inner, bool b_inner, class A, class B, class C>
DEVICE void gemm_mma(const A &a, const B &b, const C &c, u64 m, u64 n, u32 first, u64 split, bool splits) {
  typedef typename A::Element T;
  constexpr int threads = rows / (high * 16) * (columns / 32) * 32;
  typedef Ring<A, rows, threads, a_inner> RingA;
  typedef Ring<B, columns, threads, b_inner> RingB;
  constexpr int pad = 4, flush = high * 16; // rows of the output at a time
  constexpr int in = STAGES * (RingA::bytes + RingB::bytes), out = flush * (columns + pad) * 4;
  alignas(128) __shared__ unsigned char memory[in > out ? in : out];
  Tile tile = tile_of<rows, columns>(m, n);
  RingA ra(a, memory, tile.m);
  RingB rb(b, memory + STAGES * RingA::bytes, tile.n);
  u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32 wm = warp / (columns / 32), wn = warp % (columns / 32);
  float acc[high][4][4] = {};
  u32 last = (u32)a.inners;
  u32 tiles = last > first ? (last - first + RingA::depth - 1) / RingA::depth : 0;
#pragma unroll 1
  for (u32 round = 0; round < tiles + STAGES - 1; round++) {
    if (round >= STAGES - 1) {
      copy_async_wait<STAGES - 2>();
      __syncthreads();
    }
    if (round < tiles) {
      ra.fill(round % STAGES, first + round * RingA::depth);
      rb.fill(round % STAGES, first + round * RingA::depth);
    }
    copy_async_commit();
    if (round < STAGES - 1) continue;
    int stage = (round - (STAGES - 1)) % STAGES;
#pragma unroll
    for (int step = 0; step < 2; step++) {
      u32 x[high][4], y[2][4];
#pragma unroll
      for (int w = 0; w < 2; w++) rb.template load<true>(y[w], stage, wn * 32 + w * 16, step);
#pragma unroll
      for (int h = 0; h < high; h++) ra.template load<false>(x[h], stage, (wm * high + h) * 16, step);
#pragma unroll
      for (int h = 0; h < high; h++)
#pragma unroll
        for (int w = 0; w < 4; w++) Core<T>::mma(acc[h][w], x[h], &y[w / 2][w % 2 * 2]);
    }
  }
  copy_async_wait<0>();
  float *sums = (float *)memory;
  u32 g = lane / 4, t = lane % 4;
#pragma unroll 1
  for (u32 part = 0; part < rows / flush; part++) {
    __syncthreads();
    if (part == wm) {
#pragma unroll
      for (int h = 0; h < high; h++)
#pragma unroll
        for (int w = 0; w < 4; w++)
#pragma unroll
          for (int i = 0; i < 2; i++) {
            Run<float, 2> pair = {{acc[h][w][i * 2], acc[h][w][i * 2 + 1]}};
            set(sums + (h * 16 + i * 8 + g) * (columns + pad) + wn * 32 + w * 8 + t * 2, pair);
          }
    }
    __syncthreads();
    store_tile<flush, columns, threads>(sums, columns + pad, c, tile.m + part * flush, m, tile.n, n, split, splits);
  }
}
