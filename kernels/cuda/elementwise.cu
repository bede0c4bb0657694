// Functions of one element.
#include "troupe.cuh"

KERNEL(add_f32)(const float *a, const float *b, float *out, u64 n) {
  GRID_LOOP(i, n) out[i] = a[i] + b[i];
}

KERNEL(tanh_f32)(const float *a, float *out, u64 n) {
  GRID_LOOP(i, n) out[i] = tanhf(a[i]);
}
