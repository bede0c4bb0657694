// Package update applies an operation to elements in place: to whole tensors, or to rows that indices name, on
// the host and on accelerators.
package update
