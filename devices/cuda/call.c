//go:build cuda && cgo && linux

#include "call.h"

// The parameters are passed as one packed buffer, which the driver copies.
CUresult troupe_launch(uintptr_t f, const unsigned *grid, const unsigned *block, unsigned shared, CUstream stream,
                       const uint64_t *args, size_t count) {
  size_t size = count * sizeof *args;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  return cuLaunchKernel((CUfunction)f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, NULL, extra);
}

CUresult troupe_allow(uintptr_t f, int shared) {
  return cuFuncSetAttribute((CUfunction)f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared);
}

CUresult troupe_load(CUmodule *module, const char *image, char *log, size_t size) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)size};
  return cuModuleLoadDataEx(module, image, 2, options, values);
}
