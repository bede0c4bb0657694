// Package variant holds the values of variant tensors: lists, maps, optionals, composites, ragged and boxed
// tensors, and the form in which they travel.
package variant
