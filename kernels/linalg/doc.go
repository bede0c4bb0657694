// Package linalg holds the ops on matrices: products, factors, solutions, einsum.
//
// Products go through package gemm; on a GPU, they use the device's library if there is one. Real matrices are factored in their own
// type (real.go): triangles by blocks (blocked.go), by reflections (householder.go, tridiagonal.go, bidiagonal.go), and the eigenvectors
// of what these leave by division into halves (divide.go), in double precision. The singular values of float64, and the eigenvalues
// alone, are LAPACK's, as gonum has it. Complex matrices are factored in complex128, one column after the other.
package linalg
