// Package source implements the datasets without inputs: those of given tensors, of numbers, and of the records of files.
//
// Seeds are here, too: they are what random numbers and shuffled datasets start from.
package source
