// Package disk runs kernels that read or write files off the goroutine of the executor.
package disk
