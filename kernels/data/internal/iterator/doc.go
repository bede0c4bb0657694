// Package iterator implements the iterators that clients hold as resources, and the ops that use a dataset within a step: to fold it, to
// count it, or to convert it to a graph.
//
// A Resource holds a pipeline, which sessions can share. A step waits for its turn; see Resource.
package iterator
