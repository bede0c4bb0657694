// Package shim stands between gorgonia.org/cu and the CUDA driver, so a program that contains cu can start without a driver. cu links
// against libcuda and exits the process if there is no driver. Here every function that cu and Troupe call is a jump through a table. Open
// fills the table from a libcuda loaded at run time.
//
// Importing the package is enough to link it. The functions of the table are listed in symbols.txt: what cu refers to with the headers of
// CUDA 12 and 13, and what Troupe calls in addition. A function that is missing there is an undefined reference when the program is linked
// on a machine without libcuda.
package shim

//go:generate go run gen.go symbols.txt trampolines.S
