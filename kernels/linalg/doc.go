// Package linalg holds the ops on matrices: products, factors, solutions, einsum.
//
// Products go through package gemm, on a GPU through the device's library where it has one. Factorizations compute in
// complex128 and round at the end.
package linalg
