// Package chain computes several elementwise ops in one pass over memory. Where one op after the other would write its
// whole result and read it again, a chain takes a block of elements, small enough for the first-level cache, through all
// of its ops before the next one. The functions that compute are those of the ops' own kernels, so that results are the
// same to the bit.
//
// The executor makes chains when it compiles a program.
package chain
