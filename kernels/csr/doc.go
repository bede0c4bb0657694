// Package csr holds the ops on sparse matrices in compressed rows: conversions, products, transposition, and the
// factorization of symmetric ones.
//
// A matrix is a variant, variant.CSR, or a batch of matrices of one size. Ops make a new one, of which parts may be
// shared with their inputs, and never change one.
package csr
