// Shared by kernels that move elements: elements by size, whatever their type, division of indices, and places that indices name.
#pragma once
#include "troupe.cuh"

typedef u8 cell1;
typedef u16 cell2;
typedef u32 cell4;
typedef u64 cell8;
typedef uint4 cell16;

// FOR_CELLS instantiates a macro for each element size.
#define FOR_CELLS(macro) macro(1) macro(2) macro(4) macro(8) macro(16)

// Divisor divides by a size. magic is a multiplier and, in its upper half, a shift, which are exact for indices below 2^31. It is 0 if
// indices may be greater.
struct Divisor {
  u64 size, magic;
};

DEVICE u64 divide(u64 i, const Divisor &by) {
  if (by.magic == 0) return i / by.size;
  return (__umulhi((u32)i, (u32)by.magic) + (u32)i) >> (u32)(by.magic >> 32);
}

// split divides i and returns the remainder.
DEVICE u64 split(u64 &i, const Divisor &by) {
  u64 q = divide(i, by), r = i - q * by.size;
  i = q;
  return r;
}

// index_at returns element i of an integer tensor. kind is 1 for uint8, 0 for int8, and 2, 4 and 8 for int16, int32 and int64.
DEVICE i64 index_at(const void *p, u64 kind, u64 i) {
  switch (kind) {
  case 0: return ((const i8 *)p)[i];
  case 1: return ((const u8 *)p)[i];
  case 2: return ((const i16 *)p)[i];
  case 4: return ((const i32 *)p)[i];
  }
  return ((const i64 *)p)[i];
}

// Point describes how rows of depth indices name slices of a tensor.
constexpr int POINT = 8;
struct Point {
  u64 depth, dims[POINT];
};

// point returns the number of the slice that row i of the indices names, or -1 if the row is out of range.
DEVICE i64 point(const Point &p, const void *indices, u64 kind, u64 i) {
  i64 at = 0;
#pragma unroll 1
  for (u64 k = 0; k < p.depth; k++) {
    i64 x = index_at(indices, kind, i * p.depth + k);
    if ((u64)x >= p.dims[k]) return -1;
    at = at * (i64)p.dims[k] + x;
  }
  return at;
}
