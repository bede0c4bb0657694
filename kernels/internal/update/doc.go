// Package update changes elements by an operation: whole tensors, rows that indices name, on the host and on
// accelerators.
package update
