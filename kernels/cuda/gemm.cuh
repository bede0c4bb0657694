// Matrix products by multiply-adds, for all cards and element types. A block of 256 threads computes a tile of rows × columns, and each
// thread blocks of 4x4, in steps of depth along k. While it multiplies the contents of one half of the shared memory, it reads the next
// step from global memory.
#pragma once
#include "operand.cuh"

constexpr int FMA_THREADS = 256;

// fetch reads count neighbours along the inner or the outer index.
template <int count, class Op, class Sum>
DEVICE void fetch(Sum r[count], const Op &op, const typename Op::Outer &first, u32 outer, u32 inner, bool along_inner) {
  typedef typename Op::Element T;
  if (unknown(op.vector)) {
    const T *p = op.at(first, op.inner(inner));
    Run<T, count> run = {};
    if (p) run = get<count>(p);
#pragma unroll
    for (int i = 0; i < count; i++) r[i] = (Sum)run.v[i];
    return;
  }
  typename Op::Inner same = op.inner(inner);
#pragma unroll
  for (int i = 0; i < count; i++) {
    const T *p = along_inner ? op.at(first, i ? op.inner(inner + i) : same) : op.at(i ? op.outer(outer + i) : first, same);
    r[i] = p ? (Sum)*p : (Sum)0;
  }
}

// Loader moves one operand's part of a tile. Each thread moves count neighbours at once.
template <int rows, int depth, class Op, class Sum> struct Loader {
  static constexpr int count = rows * depth / FMA_THREADS, line = rows + 4;
  const Op &op;
  const bool along_inner;
  u32 outer, row, k;
  typename Op::Outer first;
  Sum next[count];
  METHOD Loader(const Op &op, bool along_inner, u32 tile) : op(op), along_inner(along_inner) {
    u32 t = threadIdx.x;
    row = along_inner ? t / (depth / count) : t % (rows / count) * count;
    k = along_inner ? t % (depth / count) * count : t / (rows / count);
    outer = tile + row;
    first = op.outer(outer);
  }
  METHOD void read(u32 at) { fetch<count>(next, op, first, outer, at + k, unknown(along_inner)); }
  METHOD void write(Sum (*to)[line]) const {
    if (unknown(along_inner)) {
#pragma unroll
      for (int i = 0; i < count; i++) to[k + i][row] = next[i];
    } else {
      Run<Sum, count> run;
#pragma unroll
      for (int i = 0; i < count; i++) run.v[i] = next[i];
      set(&to[k][row], run);
    }
  }
};

// gemm_fma computes the block's tile of a product, for k from first up to the operands' inners.
template <int rows, int columns, int depth, class A, class B, class C>
DEVICE void gemm_fma(const A &a, bool a_inner, const B &b, bool b_inner, const C &c, u64 m, u64 n, u32 first, u64 split, bool splits) {
  typedef typename C::Sum Sum;
  constexpr int high = rows / 64, wide = columns / 64; // 4x4 blocks of a thread
  struct Operands {
    Sum a[2][depth][rows + 4], b[2][depth][columns + 4];
  };
  union Memory {
    Operands in;
    Sum out[64][columns];
  };
  alignas(16) __shared__ unsigned char memory[sizeof(Memory)];
  Memory &shared = *(Memory *)memory;
  Tile tile = tile_of<rows, columns>(m, n);
  Loader<rows, depth, A, Sum> la(a, a_inner, tile.m);
  Loader<columns, depth, B, Sum> lb(b, b_inner, tile.n);
  u32 ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  Sum acc[high][4][wide * 4] = {};
  u32 last = (u32)a.inners;
  int half = 0;
  for (u32 k = first;; k += depth) {
    if (k < last) {
      la.read(k);
      lb.read(k);
    }
    if (k > first) {
#pragma unroll
      for (int i = 0; i < depth; i++) {
        Run<Sum, 4> x[high], y[wide];
#pragma unroll
        for (int h = 0; h < high; h++) x[h] = get<4>(&shared.in.a[half][i][h * 64 + ty * 4]);
#pragma unroll
        for (int w = 0; w < wide; w++) y[w] = get<4>(&shared.in.b[half][i][w * 64 + tx * 4]);
#pragma unroll
        for (int h = 0; h < high; h++)
#pragma unroll
          for (int r = 0; r < 4; r++)
#pragma unroll
            for (int j = 0; j < wide * 4; j++) acc[h][r][j] += x[h].v[r] * y[j / 4].v[j % 4];
      }
    }
    if (k >= last) break;
    half ^= 1;
    la.write(shared.in.a[half]);
    lb.write(shared.in.b[half]);
    __syncthreads();
  }
#pragma unroll
  for (int h = 0; h < high; h++) {
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int w = 0; w < wide; w++) {
        Run<Sum, 4> run;
#pragma unroll
        for (int j = 0; j < 4; j++) run.v[j] = acc[h][r][w * 4 + j];
        set(&shared.out[ty * 4 + r][w * 64 + tx * 4], run);
      }
    __syncthreads();
    store_tile<64, columns, FMA_THREADS>(&shared.out[0][0], columns, c, tile.m + h * 64, m, tile.n, n, split, splits);
  }
}
