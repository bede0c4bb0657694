// Package elementwise runs slice functions over tensors element by element. It handles broadcasting, memory and parallelism, so an op is
// only a row of functions. GPUs have equivalent drivers, which take the name of a device function.
package elementwise
