// Package linalg holds the ops on matrices: products, factors, solutions, einsum.
//
// Products go through package gemm; on a GPU, they use the device's library if there is one. Factorizations
// compute in float64, of complex matrices in complex128, and round at the end. Those that halve the matrix are here (blocked.go);
// QR, singular values and eigenvectors of real matrices are LAPACK's, as gonum has it.
package linalg
