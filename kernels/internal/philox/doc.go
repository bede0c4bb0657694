// Package philox implements the counter-based random number generator Philox and the state that kernels keep for it.
package philox
