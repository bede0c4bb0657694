// Elements selected by indices. Invalid indices yield zeros.
#include "index.cuh"

// params is [batches, outer, n, inner], indices [batches, per], out [batches, outer, per, inner].
template <class C>
DEVICE void gather(C *out, const C *params, const void *indices, u64 kind, u64 n, const Divisor &inner, const Divisor &per, const Divisor &outer, u64 count) {
  GRID_LOOP(i, count) {
    u64 row = i, k = split(row, inner), p = split(row, per), batch = divide(row, outer);
    i64 at = index_at(indices, kind, batch * per.size + p);
    out[i] = (u64)at < n ? params[(row * n + (u64)at) * inner.size + k] : C{};
  }
}

template <class C> DEVICE void gather_nd(C *out, const C *params, const void *indices, u64 kind, const Point &p, const Divisor &inner, u64 count) {
  GRID_LOOP(i, count) {
    u64 row = i, k = split(row, inner);
    i64 at = point(p, indices, kind, row);
    out[i] = at >= 0 ? params[(u64)at * inner.size + k] : C{};
  }
}

// out is [.., depth, suffix], indices [.., suffix].
template <class C>
DEVICE void one_hot(C *out, const void *indices, u64 kind, const C *on, const C *off, const Divisor &depth, const Divisor &suffix, u64 count) {
  GRID_LOOP(i, count) {
    u64 row = i, k = split(row, suffix), d = split(row, depth);
    out[i] = *(index_at(indices, kind, row * suffix.size + k) == (i64)d ? on : off);
  }
}

// reverse_sequence reverses the positions of the dimension seq that are below the batch's length. A length beyond the dimension reverses
// nothing. Dimensions are given by their sizes and strides.
template <class C>
DEVICE void reverse_sequence(C *out, const C *in, const void *lengths, u64 kind, const Divisor &seq, const Divisor &seq_step, const Divisor &batch, const Divisor &batch_step, u64 count) {
  GRID_LOOP(i, count) {
    u64 q = divide(i, seq_step), b = divide(i, batch_step);
    u64 at = split(q, seq);
    i64 length = index_at(lengths, kind, split(b, batch));
    u64 from = i;
    if ((i64)at < length && length <= (i64)seq.size) from += ((u64)length - 1 - 2 * at) * seq_step.size;
    out[i] = in[from];
  }
}

#define GATHER(size)                                                                                             \
  KERNEL(gather_##size)(cell##size *out, const cell##size *params, const void *indices, u64 kind, u64 n, Divisor inner, Divisor per, Divisor outer, u64 count) { \
    gather(out, params, indices, kind, n, inner, per, outer, count);                                             \
  }                                                                                                              \
  KERNEL(gather_nd_##size)(cell##size *out, const cell##size *params, const void *indices, u64 kind, Point p, Divisor inner, u64 count) { \
    gather_nd(out, params, indices, kind, p, inner, count);                                                      \
  }                                                                                                              \
  KERNEL(one_hot_##size)(cell##size *out, const void *indices, u64 kind, const cell##size *on, const cell##size *off, Divisor depth, Divisor suffix, u64 count) { \
    one_hot(out, indices, kind, on, off, depth, suffix, count);                                                  \
  }                                                                                                              \
  KERNEL(reverse_sequence_##size)(cell##size *out, const cell##size *in, const void *lengths, u64 kind, Divisor seq, Divisor seq_step, Divisor batch, Divisor batch_step, u64 count) { \
    reverse_sequence(out, in, lengths, kind, seq, seq_step, batch, batch_step, count);                           \
  }
FOR_CELLS(GATHER)
