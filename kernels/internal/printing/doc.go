// Package printing prints tensors and variants as TensorFlow does in messages and in Print.
package printing
