// Package philox is the counter-based generator of random numbers, and the state that kernels keep of it.
package philox
