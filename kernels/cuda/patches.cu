// The elements of each window over images become channels, with zeros for those outside the image.
#include "images.cuh"
#include "index.cuh"

template <class C> DEVICE void patches(C *dst, const C *src, const Grid &from, const Window &rows, const Window &columns, u64 count) {
  GRID_LOOP(i, count) {
    u64 rest = i, next = quotient(rest, from.channels), channel = rest - next * from.channels;
    rest = next, next = quotient(rest, columns.size);
    u64 tap_x = rest - next * columns.size;
    rest = next, next = quotient(rest, rows.size);
    u64 tap_y = rest - next * rows.size;
    rest = next, next = quotient(rest, columns.out);
    u64 x = rest - next * columns.out;
    rest = next, next = quotient(rest, rows.out);
    u64 y = rest - next * rows.out;
    y = y * rows.stride + tap_y * rows.dilation - rows.before;
    x = x * columns.stride + tap_x * columns.dilation - columns.before;
    C value = {};
    if (y < rows.in && x < columns.in) value = src[index_of(from, next, y, x, channel)];
    dst[i] = value;
  }
}

#define PATCHES(size)                                                                                              \
  KERNEL(patches_##size)(cell##size *dst, const cell##size *src, Grid from, Window rows, Window columns, u64 count) { \
    patches(dst, src, from, rows, columns, count);                                                                 \
  }
FOR_CELLS(PATCHES)
