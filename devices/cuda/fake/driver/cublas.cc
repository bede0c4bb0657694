// libcublas.so.12: matrix products by plain loops, in stream order. Matrices are column-major. Products of float32 read their inputs as
// TF32 if the mode says so and the card supports it.
#include <cmath>
#include <cstring>
#include <vector>

#include "inside.h"

#define BLAS extern "C" __attribute__((visibility("default"))) Status

namespace {

#define STATUSES(S)                                                                            \
  S(SUCCESS, 0, "success") S(NOT_INITIALIZED, 1, "the library was not initialized")            \
  S(ALLOC_FAILED, 3, "the resource allocation failed") S(INVALID_VALUE, 7, "an unsupported value or parameter was passed") \
  S(EXECUTION_FAILED, 13, "the program failed to execute") S(NOT_SUPPORTED, 15, "the functionality is not supported")
#define STATUS(name, number, text) BLAS_##name = number,
enum Status { STATUSES(STATUS) };

enum Type { float32 = 0, float64 = 1, float16 = 2, bfloat16 = 14 };
enum Compute { compute_16f = 64, compute_32f = 68, compute_32f_pedantic, compute_64f, compute_fast_16f = 74, compute_fast_16bf, compute_fast_tf32 = 77 };
enum { math_default = 0, math_tf32 = 3 };

struct Handle { void *stream = nullptr; int mode = math_default; };

size_t size_of(int type) { return type == float32 ? 4 : type == float64 ? 8 : 2; }

float from_half(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float f = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return h & 0x8000 ? -f : f;
}

uint16_t to_half(float f) {
  uint16_t sign = std::signbit(f) ? 0x8000 : 0;
  f = std::fabs(f);
  if (std::isnan(f)) return 0x7fff;
  int exponent;
  std::frexp(f, &exponent);                              // f = 0.1xxx * 2^exponent
  int unit = (f < 0x1p-14f ? -13 : exponent) - 11;       // of the last of 11 bits
  float units = std::nearbyint(std::ldexp(f, -unit));    // to nearest even
  if (!(units < 2048) ) units /= 2, unit++;
  if (std::isinf(f) || unit > 5) return sign | 0x7c00;
  return sign | (units < 1024 ? (uint16_t)units : (uint16_t)((unit + 25) << 10 | ((int)units - 1024)));
}

double read(const void *p, int type, bool tf32) {
  if (type == float64) { double d; memcpy(&d, p, 8); return d; }
  if (type == float16) { uint16_t h; memcpy(&h, p, 2); return from_half(h); }
  uint32_t bits = 0;
  memcpy((char *)&bits + (type == bfloat16 ? 2 : 0), p, size_of(type));
  if (tf32 && (bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & ~0x1fffu;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

void write(void *p, int type, double value) {
  float f = value;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  uint16_t half = type == float16 ? to_half(f) : f != f ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  memcpy(p, type == float64 ? (void *)&value : type == float32 ? (void *)&f : (void *)&half, size_of(type));
}

struct Matrix {
  uint64_t at;
  int type;
  int64_t leading, stride, rows, columns;  // as stored

  bool whole(int64_t count) const {
    if (leading < (rows > 1 ? rows : 1)) return false;
    if (!rows || !columns) return true;
    int64_t last = (count - 1) * stride;
    uint64_t first = at + (last < 0 ? last : 0) * (int64_t)size_of(type);
    int64_t elements = (last < 0 ? -last : last) + leading * (columns - 1) + rows;
    return at % size_of(type) == 0 && fakeOnCard(first, elements * size_of(type));
  }
  char *element(int64_t batch, int64_t row, int64_t column) const {
    return (char *)at + (batch * stride + column * leading + row) * (int64_t)size_of(type);
  }
};

// A Product is C = alpha*op(A)*op(B) + beta*C for each matrix of a batch.
struct Product {
  bool turn_a, turn_b, tf32;
  int64_t m, n, k, count;
  double alpha, beta;
  Matrix a, b, c;

  template <class Sum> void run() const {
    std::vector<Sum> rows(m * k), columns(n * k);
    for (int64_t batch = 0; batch < count; batch++) {
      for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) rows[i * k + l] = read(turn_a ? a.element(batch, l, i) : a.element(batch, i, l), a.type, tf32);
      for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < k; l++) columns[j * k + l] = read(turn_b ? b.element(batch, j, l) : b.element(batch, l, j), b.type, tf32);
      for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
          Sum sum = 0;
          for (int64_t l = 0; l < k; l++) sum += rows[i * k + l] * columns[j * k + l];
          char *to = c.element(batch, i, j);
          sum = (Sum)alpha * sum;
          if (beta) sum += (Sum)beta * (Sum)read(to, c.type, false);  // the old value may be a NaN
          write(to, c.type, sum);
        }
    }
  }
};

bool known(int type) { return type == float32 || type == float64 || type == float16 || type == bfloat16; }

Status multiply(Handle *h, int op_a, int op_b, Product p, const void *alpha, const void *beta, int compute) {
  if (!h) return BLAS_NOT_INITIALIZED;
  if (p.m < 0 || p.n < 0 || p.k < 0 || p.count < 0 || op_a < 0 || op_a > 2 || op_b < 0 || op_b > 2 || !alpha || !beta) return BLAS_INVALID_VALUE;
  if (!known(p.a.type) || p.a.type != p.b.type || !known(p.c.type)) return BLAS_NOT_SUPPORTED;
  bool wide = compute == compute_64f;
  if (wide != (p.a.type == float64) || wide != (p.c.type == float64) || compute == compute_16f) return BLAS_NOT_SUPPORTED;
  if (compute < compute_32f || compute > compute_fast_tf32) return BLAS_NOT_SUPPORTED;
  if (!p.m || !p.n || !p.count) return BLAS_SUCCESS;
  p.turn_a = op_a, p.turn_b = op_b;
  p.alpha = wide ? *(const double *)alpha : *(const float *)alpha;
  p.beta = wide ? *(const double *)beta : *(const float *)beta;
  p.tf32 = p.a.type == float32 && fakeCompute() >= 80 && (compute == compute_fast_tf32 || (compute == compute_32f && h->mode == math_tf32));
  p.a.rows = op_a ? p.k : p.m, p.a.columns = op_a ? p.m : p.k;
  p.b.rows = op_b ? p.n : p.k, p.b.columns = op_b ? p.k : p.n;
  p.c.rows = p.m, p.c.columns = p.n;
  if (!p.a.whole(p.count) || !p.b.whole(p.count) || !p.c.whole(p.count)) return BLAS_INVALID_VALUE;
  CUresult r = fakeEnqueue(h->stream, [p, wide] {
    if (!p.a.whole(p.count) || !p.b.whole(p.count) || !p.c.whole(p.count)) return ILLEGAL_ADDRESS;  // freed in the meantime
    if (wide) p.run<double>();
    else p.run<float>();
    return SUCCESS;
  });
  return r ? BLAS_EXECUTION_FAILED : BLAS_SUCCESS;
}

}  // namespace

BLAS cublasCreate_v2(Handle **handle) {
  if (fakeEnqueue(nullptr, [] { return SUCCESS; })) return BLAS_NOT_INITIALIZED;  // no context
  *handle = new Handle;
  return BLAS_SUCCESS;
}

BLAS cublasDestroy_v2(Handle *h) {
  if (!h) return BLAS_NOT_INITIALIZED;
  delete h;
  return BLAS_SUCCESS;
}

BLAS cublasSetStream_v2(Handle *h, void *stream) {
  if (!h) return BLAS_NOT_INITIALIZED;
  h->stream = stream;
  return BLAS_SUCCESS;
}

BLAS cublasSetMathMode(Handle *h, int mode) {
  if (!h) return BLAS_NOT_INITIALIZED;
  h->mode = mode;
  return BLAS_SUCCESS;
}

BLAS cublasGemmStridedBatchedEx_64(Handle *h, int op_a, int op_b, int64_t m, int64_t n, int64_t k, const void *alpha,
                                   uint64_t a, int a_type, int64_t lda, long long stride_a, uint64_t b, int b_type,
                                   int64_t ldb, long long stride_b, const void *beta, uint64_t c, int c_type, int64_t ldc,
                                   long long stride_c, int64_t count, int compute, int) {
  Product p{};
  p.m = m, p.n = n, p.k = k, p.count = count;
  p.a = {a, a_type, lda, stride_a};
  p.b = {b, b_type, ldb, stride_b};
  p.c = {c, c_type, ldc, stride_c};
  return multiply(h, op_a, op_b, p, alpha, beta, compute);
}

BLAS cublasGemmEx_64(Handle *h, int op_a, int op_b, int64_t m, int64_t n, int64_t k, const void *alpha, uint64_t a,
                     int a_type, int64_t lda, uint64_t b, int b_type, int64_t ldb, const void *beta, uint64_t c, int c_type,
                     int64_t ldc, int compute, int algorithm) {
  return cublasGemmStridedBatchedEx_64(h, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta, c, c_type,
                                       ldc, 0, 1, compute, algorithm);
}

BLAS cublasGemmEx(Handle *h, int op_a, int op_b, int m, int n, int k, const void *alpha, uint64_t a, int a_type, int lda,
                  uint64_t b, int b_type, int ldb, const void *beta, uint64_t c, int c_type, int ldc, int compute, int algorithm) {
  return cublasGemmEx_64(h, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm);
}

BLAS cublasGemmStridedBatchedEx(Handle *h, int op_a, int op_b, int m, int n, int k, const void *alpha, uint64_t a, int a_type,
                                int lda, long long stride_a, uint64_t b, int b_type, int ldb, long long stride_b,
                                const void *beta, uint64_t c, int c_type, int ldc, long long stride_c, int count, int compute,
                                int algorithm) {
  return cublasGemmStridedBatchedEx_64(h, op_a, op_b, m, n, k, alpha, a, a_type, lda, stride_a, b, b_type, ldb, stride_b, beta,
                                       c, c_type, ldc, stride_c, count, compute, algorithm);
}

#define NAME(name, number, text) case number: return "CUBLAS_STATUS_" #name;
extern "C" __attribute__((visibility("default"))) const char *cublasGetStatusName(Status s) {
  switch ((int)s) { STATUSES(NAME) }
  return "an unknown status";
}
#define TEXT(name, number, text) case number: return text;
extern "C" __attribute__((visibility("default"))) const char *cublasGetStatusString(Status s) {
  switch ((int)s) { STATUSES(TEXT) }
  return "an unknown status";
}
