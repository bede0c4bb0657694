// Results of the driver's calls, with the numbers of cuda.h.
#pragma once

#define FAKE_ERRORS(E)                                                      \
  E(SUCCESS, 0, "no error")                                                 \
  E(INVALID_VALUE, 1, "invalid argument")                                   \
  E(OUT_OF_MEMORY, 2, "out of memory")                                      \
  E(NOT_INITIALIZED, 3, "initialization error")                             \
  E(NO_DEVICE, 100, "no CUDA-capable device is detected")                   \
  E(INVALID_DEVICE, 101, "invalid device ordinal")                          \
  E(INVALID_CONTEXT, 201, "invalid device context")                         \
  E(NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device") \
  E(INVALID_PTX, 218, "a PTX JIT compilation failed")                       \
  E(INVALID_HANDLE, 400, "invalid resource handle")                         \
  E(NOT_FOUND, 500, "named symbol not found")                               \
  E(NOT_READY, 600, "device not ready")                                     \
  E(HOST_MEMORY_ALREADY_REGISTERED, 712, "part or all of the requested memory range is already mapped") \
  E(HOST_MEMORY_NOT_REGISTERED, 713, "pointer does not correspond to a registered memory region") \
  E(ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")       \
  E(LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch") \
  E(PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")     \
  E(PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")       \
  E(PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process") \
  E(CONTEXT_IS_DESTROYED, 709, "context is destroyed")                      \
  E(MISALIGNED_ADDRESS, 716, "misaligned address")                          \
  E(LAUNCH_FAILED, 719, "unspecified launch failure")                       \
  E(NOT_SUPPORTED, 801, "operation not supported")                          \
  E(UNKNOWN, 999, "unknown error")

#define FAKE_ERROR(name, number, text) name = number,
enum CUresult { FAKE_ERRORS(FAKE_ERROR) };
#undef FAKE_ERROR
