// cuBLAS, version 12 or 13, called by function address: building does not need its headers.
#include <stdint.h>

void *troupe_open(const char *file, char *why, int size);
void *troupe_symbol(void *library, const char *name);

// The arguments of cublasGemmEx_64 or, with count, of cublasGemmStridedBatchedEx_64.
struct troupe_gemm {
  void *handle;
  int op_a, op_b, type, compute;
  int64_t m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, count;
  double alpha, beta;
  uint64_t a, b, c;
};

int troupe_blas_create(void *f, void **handle);
int troupe_blas_destroy(void *f, void *handle);
int troupe_blas_stream(void *f, void *handle, void *stream);
int troupe_blas_math(void *f, void *handle, int mode);
int troupe_blas_gemm(void *f, const struct troupe_gemm *g);
int troupe_blas_batched(void *f, const struct troupe_gemm *g);
const char *troupe_blas_text(void *f, int status);
