// Package training implements the ops that apply gradients: optimizers, dense and sparse.
//
// An optimizer is a row of optimizers.go: its inputs, its number of slots, and an element-wise update for each type. Its ops are lines of
// table.go. They differ in how they refer to variables and in whether the gradient is sparse.
package training
