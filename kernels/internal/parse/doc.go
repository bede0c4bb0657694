// Package parse reads numbers as TensorFlow writes them.
package parse
