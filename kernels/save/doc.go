// Package save implements the ops that save and restore checkpoints, and those that remap their vocabularies and rows.
//
// Package checkpoint implements the formats. Files are read and written on separate goroutines, off the executor.
package save
