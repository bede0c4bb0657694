// Checks of the fake driver. A Go test runs each of them in its own process.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// The driver's calls. Handles are opaque pointers.
extern "C" {
int cuInit(unsigned);
int cuDeviceGetCount(int *);
int cuDeviceGetPCIBusId(char *, int, int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuDevicePrimaryCtxReset_v2(int);
int cuDevicePrimaryCtxGetState(int, unsigned *, int *);
int cuCtxSetCurrent(void *);
int cuCtxGetDevice(int *);
int cuCtxSynchronize();
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);
int cuMemcpyHtoD_v2(uint64_t, const void *, size_t);
int cuMemcpyDtoH_v2(void *, uint64_t, size_t);
int cuMemcpyHtoDAsync_v2(uint64_t, const void *, size_t, void *);
int cuMemcpyDtoHAsync_v2(void *, uint64_t, size_t, void *);
int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t, void *);
int cuMemcpyPeerAsync(uint64_t, void *, uint64_t, void *, size_t, void *);
int cuMemsetD8Async(uint64_t, unsigned char, size_t, void *);
int cuMemsetD32Async(uint64_t, unsigned, size_t, void *);
int cuStreamCreate(void **, unsigned);
int cuStreamDestroy_v2(void *);
int cuStreamSynchronize(void *);
int cuStreamQuery(void *);
int cuStreamWaitEvent(void *, void *, unsigned);
int cuEventCreate(void **, unsigned);
int cuEventDestroy_v2(void *);
int cuEventRecord(void *, void *);
int cuEventSynchronize(void *);
int cuEventQuery(void *);
int cuModuleLoadData(void **, const char *);
int cuModuleUnload(void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuFuncSetAttribute(void *, int, int);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuGetErrorName(int, const char **);
}

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_CONTEXT = 201,
  NO_BINARY = 209, INVALID_PTX = 218, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701,
  DESTROYED = 709, LAUNCH_FAILED = 719, UNKNOWN = 999,
};

struct Check { const char *name; void (*run)(); };
std::vector<Check> &checks();
#define CHECK(name)                                                          \
  static void name();                                                        \
  static const bool added_##name = (checks().push_back({#name, name}), true); \
  static void name()

// expect ends the process if two values differ.
#define expect(got, want) expect_(#got, (double)(got), (double)(want), __FILE__, __LINE__)
void expect_(const char *what, double got, double want, const char *file, int line);

// A Card is the first device with its primary context current, the module of checks.cu loaded, and its own stream, which is ordered only by
// events.
struct Card {
  void *context, *module, *stream;
  explicit Card(int device = 0);
  void *function(const char *name) const;
  // launch returns the result of the call; the arguments are words of 8 bytes.
  int launch(const char *name, unsigned grid, unsigned block, std::vector<uint64_t> arguments, unsigned shared = 0) const;
  // run launches and waits.
  int run(const char *name, unsigned grid, unsigned block, std::vector<uint64_t> arguments, unsigned shared = 0) const;
};
void *new_stream();
void *new_event();
std::string ptx();

// A Buffer is n elements on the card. read waits only for the default stream.
template <class T> struct Buffer {
  uint64_t at = 0;
  size_t n;
  explicit Buffer(size_t n) : n(n) { expect(cuMemAlloc_v2(&at, n * sizeof(T)), OK); }
  explicit Buffer(const std::vector<T> &v) : Buffer(v.size()) { expect(cuMemcpyHtoD_v2(at, v.data(), n * sizeof(T)), OK); }
  std::vector<T> read() const {
    std::vector<T> v(n);
    expect(cuMemcpyDtoH_v2(v.data(), at, n * sizeof(T)), OK);
    return v;
  }
};
