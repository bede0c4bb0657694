// Package batch holds the ops that combine the calls of several steps into one: BatchFunction, Batch and
// Unbatch.
//
// A scheduler is a resource of the device. Steps that wait in it are callbacks, and a cancelled step leaves it.
package batch
