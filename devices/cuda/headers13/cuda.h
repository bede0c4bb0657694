// gorgonia.org/cu v0.9.6 is written for CUDA 12, whose header maps some names to older functions than CUDA 13's does. This header precedes
// CUDA's own on the include path and, with CUDA 13, maps those names back to the old functions, which the driver still has.
#ifndef TROUPE_CUDA_H
#define TROUPE_CUDA_H
#include_next <cuda.h>
#if CUDA_VERSION >= 13000
#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v2
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
#undef cuMemAdvise
CUresult CUDAAPI cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice);
#undef cuMemPrefetchAsync
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream);
#undef cuGraphAddDependencies
CUresult CUDAAPI cuGraphAddDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
#undef cuGraphGetEdges
CUresult CUDAAPI cuGraphGetEdges(CUgraph, CUgraphNode *, CUgraphNode *, size_t *);
#endif
#endif
