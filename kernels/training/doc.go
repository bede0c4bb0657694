// Package training holds the ops that apply gradients: optimizers, dense and sparse.
//
// An optimizer is a row of optimizers.go: its inputs, its number of slots, and an update of one element for
// each type.
package training
