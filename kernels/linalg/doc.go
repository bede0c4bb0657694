// Package linalg holds the ops on matrices: products, factors, solutions, einsum.
//
// Products go through package gemm; on a GPU, they use the device's library if there is one. Factorizations
// compute in complex128 and round at the end.
package linalg
