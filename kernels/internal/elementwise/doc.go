// Package elementwise runs slice functions over tensors element by element: it owns broadcasting, memory and
// parallelism, so that an op is a row of functions. GPUs have the same drivers, by the name of a device function.
package elementwise
