// Operands of convolutions over volumes, like those of operand.cuh over images. Channels come last.
#pragma once
#include "conv.cuh"

// Axis describes how windows move along one dimension. Tap i of the window at place p is at element (p*stride + origin + i*step) / over; if
// that is not an integer, there is no element.
struct Axis {
  u64 size, places, taps, stride;
  i64 origin, step;
  u64 over;
};

struct Volume {
  u64 channels, depth; // of the volume, and of a group
  Axis z, y, x;
};

// Spot is the position of a window, and Shift the offset of a tap.
struct Spot {
  i64 base;
  i32 z, y, x;
};

struct Shift {
  i64 offset;
  i32 z, y, x;
};

// If whole is set, over is 1 along each axis, so that places and taps can be added as addresses.
template <bool whole> DEVICE Spot spot_of(const Volume &v, u32 i, u64 limit) {
  if (i >= limit) return {0, NOWHERE, 0, 0};
  u32 x = i % (u32)v.x.places, rest = i / (u32)v.x.places;
  u32 y = rest % (u32)v.y.places;
  rest /= (u32)v.y.places;
  u32 z = rest % (u32)v.z.places, volume = rest / (u32)v.z.places;
  Spot s = {volume, (i32)(z * v.z.stride + v.z.origin), (i32)(y * v.y.stride + v.y.origin), (i32)(x * v.x.stride + v.x.origin)};
  if (whole) s.base = (((s.base * (i64)v.z.size + s.z) * (i64)v.y.size + s.y) * (i64)v.x.size + s.x) * (i64)v.channels;
  return s;
}

template <bool whole> DEVICE Shift shift_of(const Volume &v, u32 k, u64 limit) {
  if (k >= limit) return {0, NOWHERE, 0, 0};
  u32 tap = k / (u32)v.depth, c = k % (u32)v.depth;
  i32 x = (i32)(tap % (u32)v.x.taps) * (i32)v.x.step, rest = (i32)(tap / (u32)v.x.taps);
  i32 y = (i32)((u32)rest % (u32)v.y.taps) * (i32)v.y.step, z = (i32)((u32)rest / (u32)v.y.taps) * (i32)v.z.step;
  if (!whole) return {(i64)c, z, y, x};
  return {(((i64)z * (i64)v.y.size + y) * (i64)v.x.size + x) * (i64)v.channels + c, z, y, x};
}

// along returns the element of an axis, or -1 if there is none.
DEVICE i32 along(const Axis &a, i32 at) {
  if (at < 0) return -1;
  u32 q = (u32)at / (u32)a.over;
  return q * (u32)a.over == (u32)at && q < a.size ? (i32)q : -1;
}

template <bool whole, class T> DEVICE const T *voxel(const T *data, const Volume &v, const Spot &s, const Shift &t) {
  if (whole) {
    bool inside = (u32)(s.z + t.z) < v.z.size && (u32)(s.y + t.y) < v.y.size && (u32)(s.x + t.x) < v.x.size;
    return inside ? data + s.base + t.offset : nullptr;
  }
  i32 z = along(v.z, s.z + t.z), y = along(v.y, s.y + t.y), x = along(v.x, s.x + t.x);
  if ((z | y | x) < 0) return nullptr;
  return data + (((s.base * (i64)v.z.size + z) * (i64)v.y.size + y) * (i64)v.x.size + x) * (i64)v.channels + t.offset;
}

// Windows3 has a row for each place, and a column for each tap and channel.
template <class T, bool whole> struct Windows3 {
  typedef T Element;
  typedef Spot Outer;
  typedef Shift Inner;
  const T *data;
  u64 outers, inners, vector;
  Volume volume;
  METHOD Outer outer(u32 i) const { return spot_of<whole>(volume, i, outers); }
  METHOD Inner inner(u32 k) const { return shift_of<whole>(volume, k, inners); }
  METHOD const T *at(const Outer &o, const Inner &i) const { return voxel<whole>(data, volume, o, i); }
};

// Windows3Transposed is the transpose of Windows3.
template <class T> struct Windows3Transposed {
  typedef T Element;
  typedef Shift Outer;
  typedef Spot Inner;
  const T *data;
  u64 outers, inners, vector;
  Volume volume;
  METHOD Outer outer(u32 i) const { return shift_of<true>(volume, i, outers); }
  METHOD Inner inner(u32 k) const { return spot_of<true>(volume, k, inners); }
  METHOD const T *at(const Outer &o, const Inner &i) const { return voxel<true>(data, volume, i, o); }
};
