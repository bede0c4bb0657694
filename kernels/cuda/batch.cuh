// Batches of matrix products, whose operands may be broadcast.
#pragma once
#include "operand.cuh"

// Batches holds the dimensions of a batch, outermost first, and the strides of each in the operands, in elements.
struct Batches {
  u64 rank, dims[8], a[8], b[8];
};

// batch_offsets computes the offsets of the operands of product z.
DEVICE void batch_offsets(const Batches &batches, u64 z, u64 &a, u64 &b) {
  a = b = 0;
  for (int d = (int)batches.rank - 1; d >= 0; d--) {
    u64 i = z % batches.dims[d];
    z /= batches.dims[d];
    a += i * batches.a[d];
    b += i * batches.b[d];
  }
}

// each_product calls body with the operands and output of each product that this block works on.
template <class A, class B, class C, class F>
DEVICE void each_product(const Sizes &s, const A &a, const B &b, const C &c, const Batches &batches, F body) {
  u32 first = (u32)(blockIdx.y * s.span);
  for (u64 z = blockIdx.z; z < s.batch; z += gridDim.z) {
    A az = a;
    B bz = b;
    C cz = c;
    u64 oa, ob;
    batch_offsets(batches, z, oa, ob);
    az.data += oa;
    bz.data += ob;
    cz.data += z * s.m * s.n;
    cz.partial += z * s.m * s.n;
    az.inners = bz.inners = min(s.k, first + s.span);
    body(az, bz, cz, first);
    __syncthreads();
  }
}
