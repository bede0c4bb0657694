// Package fake builds a CUDA driver for tests on machines without a card: a libcuda.so.1 in C++ (driver/)
// that runs the kernels of kernels/cuda on the CPU, and a libcublas.so.12 beside it.
//
// The kernels are the same sources, compiled by g++. A block's threads are fibres, and warps run far
// ahead of each other, so that missing barriers show. Commands of streams run when something waits for
// them and not before, so that missing events show too; FAKE_CUDA_EAGER=1 runs them at once. New memory
// is NaN, accesses to what is not allocated are errors.
//
// The environment says what machine it is:
//
//	FAKE_CUDA_DEVICES     cards (1); read by cuInit, as CUDA_VISIBLE_DEVICES is
//	FAKE_CUDA_MEM         bytes of memory that each has (1 GiB)
//	FAKE_CUDA_SM          their compute capability (90)
//	FAKE_CUDA_EAGER=1     commands run when they are queued
//	FAKE_CUDA_FAIL        what fails, separated by commas, counted from when the variable changed:
//	                      launch:N     the Nth launch is refused (LAUNCH_OUT_OF_RESOURCES)
//	                      fault:N      the Nth kernel that runs ends in a sticky ILLEGAL_ADDRESS
//	                      alloc:N      the Nth allocation on a card is OUT_OF_MEMORY
//	                      hostalloc:N  the Nth allocation of pinned memory is
//	                      lost         every call ends in UNKNOWN (999)
//
// Reasons of faults are written to standard error.
package fake
