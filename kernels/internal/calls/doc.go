// Package calls prepares the functions of the graph's library that kernels call, and their arguments.
package calls
