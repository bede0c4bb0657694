// Package sparse implements the ops on sparse tensors, and their counterparts for ragged tensors.
//
// Indices are checked before they are used.
package sparse
