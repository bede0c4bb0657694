// Package save holds the ops that save and restore checkpoints, and those that remap their vocabularies and
// rows.
//
// Package checkpoint has the formats. Files are read and written on goroutines of their own, off the executor.
package save
