// Package gemm multiplies matrices, on the CPU and on accelerators.
package gemm
