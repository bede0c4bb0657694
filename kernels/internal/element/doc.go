// Package element holds what depends only on element types: their Go types and constraints, views of tensors as slices, conversions, and
// how many elements are worth a core.
package element
