// Package batch holds the ops that combine the calls of several steps into one: BatchFunction, Batch and Unbatch.
//
// A scheduler is a resource of the device. Steps wait in it as callbacks; a cancelled step leaves it.
package batch
