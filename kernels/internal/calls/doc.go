// Package calls prepares the library functions that kernels call, and their arguments.
package calls
