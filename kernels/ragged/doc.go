// Package ragged implements the ops on ragged tensors: splits, ranges, gathers, and conversions to and from variants and dense tensors.
package ragged
