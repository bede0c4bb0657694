// Package elementwise runs slice functions over tensors element by element. It does broadcasting, memory and
// parallelism, so that an op is a row of functions. GPUs have the same drivers, given the name of a device
// function.
package elementwise
