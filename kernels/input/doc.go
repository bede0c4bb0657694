// Package input implements the ops that read files and decode records: readers, CSV, raw bytes and example messages.
//
// The formats have packages of their own, which do not depend on ops. Sizes are checked before memory is allocated.
package input
