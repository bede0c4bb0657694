// Package parse parses numbers as TensorFlow does.
package parse
