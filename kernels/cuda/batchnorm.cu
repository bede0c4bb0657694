// Batch normalization. Statistics are floats, whatever the type of the images.
#include "columns.cuh"

// Moments holds the mean of some elements and the sum of their squared distances from it.
struct Moments {
  float count, mean, squares;
};

DEVICE void merge_moments(Moments &a, const Moments &b) {
  if (b.count == 0) return;
  float count = a.count + b.count, apart = b.mean - a.mean, share = b.count / count;
  a.mean += apart * share;
  a.squares += b.squares + apart * apart * a.count * share;
  a.count = count;
}

// Shifted holds sums of distances from a thread's first element. They lose no digits if the mean is large, and need no division for each
// element.
struct Shifted {
  float count, origin, sum, squares;
};

template <class T> DEVICE void batch_norm_moments(const T *x, Moments *partial, const Columns &c) {
  __shared__ Moments states[COLUMN_THREADS];
  u32 t = threadIdx.x, width = (u32)c.width;
  u64 column = (u64)blockIdx.x * width + t % width, end = min(c.rows, (blockIdx.y + (u64)1) * c.span);
  Shifted s = {};
  if (column < c.columns)
    for (u64 row = blockIdx.y * c.span + t / width; row < end; row += COLUMN_THREADS / width) {
      float v = (float)x[column_index(c, row, column)];
      if (s.count == 0) s.origin = v;
      float d = v - s.origin;
      s.count += 1;
      s.sum += d;
      s.squares += d * d;
    }
  float mean = s.count > 0 ? s.sum / s.count : 0;
  states[t] = {s.count, s.origin + mean, s.squares - s.sum * mean};
  for (u32 half = COLUMN_THREADS / 2; half >= width; half /= 2) {
    __syncthreads();
    if (t < half) merge_moments(states[t], states[t + half]);
  }
  if (t < width && column < c.columns) partial[blockIdx.y * c.columns + column] = states[t];
}

// batch_norm_finish combines the blocks' moments into the op's outputs. Without any rows, these are NaN.
KERNEL(batch_norm_finish)(const Moments *partial, u64 parts, u64 channels, const float *old_mean, const float *old_variance, double average,
                          float *mean, float *variance, float *saved_mean, float *saved_variance) {
  GRID_LOOP(i, channels) {
    Moments all = {};
    for (u64 p = 0; p < parts; p++) merge_moments(all, partial[p * channels + i]);
    if (all.count == 0) {
      mean[i] = variance[i] = __builtin_nanf("");
      saved_mean[i] = saved_variance[i] = 0;
      continue;
    }
    float batch = max(all.squares, 0.f) / all.count, share = (float)average;
    float unbiased = batch * (all.count / max(1.f, all.count - 1));
    if (share == 1) {
      mean[i] = all.mean;
      variance[i] = unbiased;
    } else {
      mean[i] = (1 - share) * old_mean[i] + share * all.mean;
      variance[i] = (1 - share) * old_variance[i] + share * unbiased;
    }
    saved_mean[i] = all.mean;
    saved_variance[i] = batch;
  }
}

DEVICE u64 channel_of(u64 i, u64 channels, u64 spatial, u64 first) {
  if (first) i = quotient(i, spatial);
  return i - quotient(i, channels) * channels;
}

template <class T>
DEVICE void batch_norm_apply(const T *x, T *y, u64 n, u64 channels, u64 spatial, u64 first, const float *scale, const float *offset, const float *mean, const float *variance, float epsilon) {
  GRID_LOOP(i, n) {
    u64 c = channel_of(i, channels, spatial, first);
    y[i] = (T)(((float)x[i] - mean[c]) * (scale[c] / sqrtf(variance[c] + epsilon)) + offset[c]);
  }
}

// Slopes holds the sums that the gradients are computed from: of dy, and of dy times the distance from the mean.
struct Slopes {
  float offset, scale;
};

template <class T> DEVICE void batch_norm_slopes(const T *dy, const T *x, const float *mean, Slopes *partial, const Columns &c) {
  reduce_columns<Slopes>(
      c,
      [&](Slopes &s, u64 row, u64 column) {
        u64 i = column_index(c, row, column);
        float g = (float)dy[i];
        s.offset += g;
        s.scale += g * ((float)x[i] - mean[column]);
      },
      [](Slopes &s, const Slopes &other) {
        s.offset += other.offset;
        s.scale += other.scale;
      },
      [&](u64 column, const Slopes &s) { partial[blockIdx.y * c.columns + column] = s; });
}

// batch_norm_grad_finish adds up the blocks' sums. The per-row sums, for the images' gradient, are zero if the statistics do not come from
// the batch.
KERNEL(batch_norm_grad_finish)(const Slopes *partial, u64 parts, u64 channels, u64 rows, u64 training, const float *variance, double epsilon,
                               float *scale_grad, float *offset_grad, Slopes *per_row) {
  GRID_LOOP(i, channels) {
    Slopes all = {};
    for (u64 p = 0; p < parts; p++) {
      all.offset += partial[p * channels + i].offset;
      all.scale += partial[p * channels + i].scale;
    }
    float inverse = 1 / sqrtf(variance[i] + (float)epsilon);
    per_row[i] = {};
    if (training) per_row[i] = {all.offset / (float)rows, all.scale / (float)rows * inverse * inverse};
    scale_grad[i] = all.scale * inverse;
    offset_grad[i] = all.offset;
  }
}

template <class T>
DEVICE void batch_norm_grad(const T *dy, const T *x, T *dx, u64 n, u64 channels, u64 spatial, u64 first, const float *scale, const float *mean, const float *variance, float epsilon, const Slopes *per_row) {
  GRID_LOOP(i, n) {
    u64 c = channel_of(i, channels, spatial, first);
    float factor = scale[c] * (1 / sqrtf(variance[c] + epsilon));
    dx[i] = (T)(factor * ((float)dy[i] - per_row[c].offset - ((float)x[i] - mean[c]) * per_row[c].scale));
  }
}

#define BATCH_NORM(type, T)                                                                                                     \
  KERNEL_OF(COLUMN_THREADS, batch_norm_moments_##type)(const T *x, Moments *partial, Columns c) { batch_norm_moments(x, partial, c); } \
  KERNEL(batch_norm_apply_##type)                                                                                               \
  (const T *x, T *y, u64 n, u64 channels, u64 spatial, u64 first, const float *scale, const float *offset, const float *mean, const float *variance, double epsilon) { \
    batch_norm_apply(x, y, n, channels, spatial, first, scale, offset, mean, variance, (float)epsilon);                         \
  }                                                                                                                             \
  KERNEL_OF(COLUMN_THREADS, batch_norm_slopes_##type)(const T *dy, const T *x, const float *mean, Slopes *partial, Columns c) { \
    batch_norm_slopes(dy, x, mean, partial, c);                                                                                 \
  }                                                                                                                             \
  KERNEL(batch_norm_grad_##type)                                                                                                \
  (const T *dy, const T *x, T *dx, u64 n, u64 channels, u64 spatial, u64 first, const float *scale, const float *mean, const float *variance, double epsilon, const Slopes *per_row) { \
    batch_norm_grad(dy, x, dx, n, channels, spatial, first, scale, mean, variance, (float)epsilon, per_row);                    \
  }

BATCH_NORM(f32, float)
BATCH_NORM(f16, half)
BATCH_NORM(bf16, bfloat16)
