// Package random implements the ops that generate random numbers, stateful and stateless.
//
// All of them use Philox, as TensorFlow's do, and return the same numbers on every device for the same seed.
package random
