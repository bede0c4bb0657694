// Package csr implements the ops on sparse matrices in compressed rows: conversions, products, transposition, and the factorization of
// symmetric ones.
//
// A matrix, or a batch of matrices of one size, is a variant: variant.CSR. Ops never modify a matrix; they create new ones, which may share
// parts with their inputs.
package csr
