// Package args reads the inputs and attributes that kernels of many families take: scalars, sizes, axes, indices,
// shapes. Errors name the input, in TensorFlow's words.
package args
