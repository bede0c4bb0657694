// Package sparse holds the ops on sparse tensors.
//
// Indices are checked before anything is read by them.
package sparse
