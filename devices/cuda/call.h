// Calls that cu lacks, or makes with needless allocations or unsafe Go pointers.
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

CUresult troupe_launch(uintptr_t f, const unsigned *grid, const unsigned *block, unsigned shared, CUstream stream,
                       const uint64_t *args, size_t count);
CUresult troupe_allow(uintptr_t f, int shared);
CUresult troupe_load(CUmodule *module, const char *image, char *log, size_t size);
