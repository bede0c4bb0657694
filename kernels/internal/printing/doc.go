// Package printing prints tensors and variants as TensorFlow does in messages and by Print.
package printing
