// Package chain computes several elementwise ops in one pass over memory. Separate ops would each write their whole result and read it
// again. A chain instead runs a block of elements, small enough for the first-level cache, through all of its ops before the next block. It
// computes with the functions of the ops' own kernels, so results are identical to the bit.
//
// The executor builds chains when it compiles a program.
package chain
