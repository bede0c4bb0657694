// Package passthrough implements the datasets that return the elements of their input unchanged: options, assertions about the pipeline,
// statistics, and sharding among workers, which rewrites the input's graph.
package passthrough
