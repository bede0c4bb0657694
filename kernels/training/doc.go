// Package training holds the ops that apply gradients: optimizers, dense and sparse.
//
// An optimizer is a row of optimizers.go: its inputs, its number of slots, and an update of one element for
// each type. Its ops, which differ in how variables are named and in whether the gradient is sparse, are lines of
// table.go.
package training
