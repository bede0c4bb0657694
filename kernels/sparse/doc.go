// Package sparse holds the ops on sparse tensors, and those on ragged ones that have a twin among them.
//
// Indices are checked before anything is read by them.
package sparse
