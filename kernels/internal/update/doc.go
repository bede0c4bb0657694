// Package update applies an operation to elements in place, either to whole tensors or to rows selected by indices, on the host and on
// accelerators.
package update
