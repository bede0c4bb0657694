// Package state holds the ops on variables, by reference and by handle, and on the tensors that a session keeps.
//
// Updates of one variable exclude each other, with and without use_locking.
package state
