// Package fake builds a CUDA driver for tests on machines without a card: a libcuda.so.1 in C++ (driver/) that runs the kernels of
// kernels/cuda on the CPU, with a libcublas.so.12.
//
// The kernels are the same sources, compiled by g++. A block's threads are fibres. Warps run far ahead of each other, which exposes missing
// barriers. Stream commands run only when something waits for them, which exposes missing events; FAKE_CUDA_EAGER=1 runs them at once. New
// memory is filled with NaN. Accesses to unallocated memory are errors.
//
// The environment configures the simulated machine:
//
//	FAKE_CUDA_DEVICES     number of cards (1); read by cuInit, like CUDA_VISIBLE_DEVICES
//	FAKE_CUDA_MEM         bytes of memory of each card (1 GiB)
//	FAKE_CUDA_SM          their compute capability (90)
//	FAKE_CUDA_EAGER=1     commands run when they are queued
//	FAKE_CUDA_FAIL        what fails, comma-separated, counted from the last change of the variable:
//	                      launch:N     the Nth launch is refused (LAUNCH_OUT_OF_RESOURCES)
//	                      fault:N      the Nth kernel ends with a sticky ILLEGAL_ADDRESS
//	                      alloc:N      the Nth allocation on a card returns OUT_OF_MEMORY
//	                      hostalloc:N  the same for the Nth allocation of pinned memory
//	                      lost         every call returns UNKNOWN (999)
//
// The reasons for faults are written to standard error.
package fake
