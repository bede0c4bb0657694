// Package printing formats tensors and variants as TensorFlow does in messages and in Print.
package printing
