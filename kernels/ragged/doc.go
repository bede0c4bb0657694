// Package ragged holds the ops on ragged tensors: splits, ranges, gathers, and their way into variants and dense
// tensors.
package ragged
