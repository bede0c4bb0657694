// Package element holds what depends on the type of elements alone: their Go types and constraints, views of
// tensors as slices, conversions, and how many are worth a core.
package element
