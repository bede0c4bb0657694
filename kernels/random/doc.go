// Package random holds the ops that make random numbers, stateful and stateless.
//
// All of them use Philox, as TensorFlow's do, and give the same numbers on every device for the same seed.
package random
