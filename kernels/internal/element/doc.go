// Package element holds what depends only on the type of elements: their Go types and constraints, views of
// tensors as slices, conversions, and how many elements are worth a core.
package element
