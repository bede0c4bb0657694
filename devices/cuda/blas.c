//go:build cuda && cgo && linux

#include "blas.h"

#include <dlfcn.h>
#include <stdio.h>

void *troupe_open(const char *file, char *why, int size) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    snprintf(why, size, "%s", reason ? reason : file);
  }
  return library;
}

void *troupe_symbol(void *library, const char *name) { return dlsym(library, name); }

int troupe_blas_create(void *f, void **handle) { return ((int (*)(void **))f)(handle); }

int troupe_blas_destroy(void *f, void *handle) { return ((int (*)(void *))f)(handle); }

int troupe_blas_stream(void *f, void *handle, void *stream) { return ((int (*)(void *, void *))f)(handle, stream); }

int troupe_blas_math(void *f, void *handle, int mode) { return ((int (*)(void *, int))f)(handle, mode); }

const char *troupe_blas_text(void *f, int status) { return ((const char *(*)(int))f)(status); }

enum { float64 = 1, default_algorithm = -1 };

// scalar returns alpha or beta in the type of the sums: float64 for float64, otherwise float32.
static const void *scalar(const struct troupe_gemm *g, const double *wide, float *narrow) {
  if (g->type == float64) return wide;
  *narrow = (float)*wide;
  return narrow;
}

typedef int (*gemm_ex)(void *, int, int, int64_t, int64_t, int64_t, const void *, const void *, int, int64_t,
                       const void *, int, int64_t, const void *, void *, int, int64_t, int, int);

int troupe_blas_gemm(void *f, const struct troupe_gemm *g) {
  float alpha, beta;
  return ((gemm_ex)f)(g->handle, g->op_a, g->op_b, g->m, g->n, g->k, scalar(g, &g->alpha, &alpha), (const void *)g->a,
                      g->type, g->lda, (const void *)g->b, g->type, g->ldb, scalar(g, &g->beta, &beta), (void *)g->c,
                      g->type, g->ldc, g->compute, default_algorithm);
}

typedef int (*gemm_batched)(void *, int, int, int64_t, int64_t, int64_t, const void *, const void *, int, int64_t,
                            long long, const void *, int, int64_t, long long, const void *, void *, int, int64_t,
                            long long, int64_t, int, int);

int troupe_blas_batched(void *f, const struct troupe_gemm *g) {
  float alpha, beta;
  return ((gemm_batched)f)(g->handle, g->op_a, g->op_b, g->m, g->n, g->k, scalar(g, &g->alpha, &alpha),
                           (const void *)g->a, g->type, g->lda, g->stride_a, (const void *)g->b, g->type, g->ldb,
                           g->stride_b, scalar(g, &g->beta, &beta), (void *)g->c, g->type, g->ldc, g->stride_c,
                           g->count, g->compute, default_algorithm);
}
