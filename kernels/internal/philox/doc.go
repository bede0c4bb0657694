// Package philox is the counter-based generator of random numbers, and the kernels' state of it.
package philox
