// Package training holds the ops that apply gradients: optimizers, dense and sparse.
//
// An optimizer is a row of optimizers.go: its inputs, how many slots it has, and an update of one element for each type.
package training
