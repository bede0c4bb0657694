// Package args reads inputs and attributes for kernels of many families: scalars, sizes, axes, indices, shapes. Errors name the input, in
// TensorFlow's words.
package args
