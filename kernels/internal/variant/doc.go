// Package variant defines the elements of variant tensors: lists, maps, optionals, composites, ragged and boxed tensors, and the form in
// which processes exchange them.
package variant
