// Package random holds the ops that make random numbers, stateful and stateless.
//
// All of them are made by Philox, as TensorFlow's are, and are the same on every device for the same seed.
package random
