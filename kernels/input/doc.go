// Package input holds the ops that read files and decode records: readers, CSV, raw bytes and example messages.
//
// The formats are packages beside this one, which know no ops. Sizes are checked before memory is taken.
package input
