// Local response normalization over neighbouring channels, which come last, and its gradient.
#include "images.cuh"

struct Response {
  u64 depth, radius;
  double bias, alpha, beta;
};

struct Span {
  u64 low, high;
};

DEVICE Span neighbours(const Response &r, u64 channel) { return {channel > r.radius ? channel - r.radius : 0, min(r.depth, channel + r.radius + 1)}; }

template <class T> DEVICE float norm(const T *row, const Response &r, u64 channel) {
  Span s = neighbours(r, channel);
  float sum = 0;
  for (u64 i = s.low; i < s.high; i++) sum += (float)row[i] * (float)row[i];
  return (float)r.bias + (float)r.alpha * sum;
}

template <class T> DEVICE void lrn(const T *in, T *out, u64 n, const Response &r) {
  GRID_LOOP(i, n) {
    u64 row = quotient(i, r.depth) * r.depth;
    out[i] = (T)((float)in[i] * powf(norm(in + row, r, i - row), -(float)r.beta));
  }
}

// lrn_norm writes the norms. The gradient needs those of all neighbours.
template <class T> DEVICE void lrn_norm(const T *in, float *norms, u64 n, const Response &r) {
  GRID_LOOP(i, n) {
    u64 row = quotient(i, r.depth) * r.depth;
    norms[i] = norm(in + row, r, i - row);
  }
}

template <class T> DEVICE void lrn_grad(const T *grad, const T *in, const T *out, const float *norms, T *result, u64 n, const Response &r) {
  GRID_LOOP(i, n) {
    u64 row = quotient(i, r.depth) * r.depth;
    Span s = neighbours(r, i - row);
    float sum = 0;
    for (u64 at = row + s.low; at < row + s.high; at++) {
      float own = (float)grad[at];
      if (own == 0) continue; // the norm may have any value there
      if (at == i) sum += own * powf(norms[i], -(float)r.beta);
      sum += (float)in[i] * (-2 * (float)r.alpha * (float)r.beta * (float)out[at] / norms[at] * own);
    }
    result[i] = (T)sum;
  }
}

#define LRN(type, T)                                                                                                               \
  KERNEL(lrn_##type)(const T *in, T *out, u64 n, Response r) { lrn(in, out, n, r); }                                               \
  KERNEL(lrn_norm_##type)(const T *in, float *norms, u64 n, Response r) { lrn_norm(in, norms, n, r); }                             \
  KERNEL(lrn_grad_##type)(const T *grad, const T *in, const T *out, const float *norms, T *result, u64 n, Response r) {            \
    lrn_grad(grad, in, out, norms, result, n, r);                                                                                  \
  }

LRN(f32, float)
LRN(f16, half)
LRN(bf16, bfloat16)
