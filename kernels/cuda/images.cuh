// Images in either layout, and windows that move over them.
#pragma once
#include "troupe.cuh"

// Element is a position in a batch of images.
struct Element {
  u64 image, y, x, channel;
};

// quotient is a division that is fast for small numbers.
DEVICE u64 quotient(u64 a, u64 b) { return (a | b) >> 32 ? a / b : (u32)a / (u32)b; }

// Grid holds the size of images, and whether their channels come first or last.
struct Grid {
  u64 channels, height, width, first;
};

DEVICE Element element_of(const Grid &g, u64 i) {
  Element e;
  u64 rest;
  if (g.first) {
    rest = quotient(i, g.width), e.x = i - rest * g.width, i = rest;
    rest = quotient(i, g.height), e.y = i - rest * g.height, i = rest;
    rest = quotient(i, g.channels), e.channel = i - rest * g.channels, e.image = rest;
  } else {
    rest = quotient(i, g.channels), e.channel = i - rest * g.channels, i = rest;
    rest = quotient(i, g.width), e.x = i - rest * g.width, i = rest;
    rest = quotient(i, g.height), e.y = i - rest * g.height, e.image = rest;
  }
  return e;
}

DEVICE u64 index_of(const Grid &g, u64 image, u64 y, u64 x, u64 channel) {
  return g.first ? ((image * g.channels + channel) * g.height + y) * g.width + x : ((image * g.height + y) * g.width + x) * g.channels + channel;
}

// Window describes how a window moves along one dimension.
struct Window {
  u64 in, out, size, stride, dilation, before;
};

// Part is the part of the window at a place that lies in the image: its elements from low up to high, where element i is at start +
// i*dilation.
struct Part {
  i64 start;
  u64 low, high;
};

DEVICE Part part_at(const Window &w, u64 place) {
  Part p = {(i64)(place * w.stride) - (i64)w.before, 0, w.size};
  if (p.start < 0) p.low = min(w.size, quotient((u64)-p.start + w.dilation - 1, w.dilation));
  i64 over = p.start + (i64)((w.size - 1) * w.dilation) - (i64)(w.in - 1);
  if (over > 0) {
    u64 cut = quotient((u64)over + w.dilation - 1, w.dilation);
    p.high = cut < w.size ? w.size - cut : 0;
  }
  return p;
}

// Places is the range of places whose windows, without dilation, contain a pixel.
struct Places {
  u64 low, high;
};

DEVICE Places places_over(const Window &w, u64 pixel) {
  u64 at = pixel + w.before;
  u64 low = at < w.size ? 0 : quotient(at - w.size, w.stride) + 1;
  return {low, min(quotient(at, w.stride) + 1, w.out)};
}
