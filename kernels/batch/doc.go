// Package batch holds the ops that gather the calls of several steps into one: BatchFunction, Batch and Unbatch.
//
// A scheduler is a resource of the device; steps that wait in it are callbacks, and a cancelled step leaves it.
package batch
