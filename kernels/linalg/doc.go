// Package linalg implements the ops on matrices: products, factorizations, solvers, einsum.
//
// Products go through package gemm. On a GPU, they use the device's library if there is one.
//
// Real matrices are factored in their own type (real.go): triangles by blocks (blocked.go), other forms by reflections (householder.go,
// tridiagonal.go, bidiagonal.go). The eigenvectors of the reduced forms come from divide and conquer in double precision (divide.go). The
// singular values of float64, and eigenvalues without eigenvectors, use gonum's LAPACK. Complex matrices are factored in complex128, column
// by column.
package linalg
