// Package data has the ops of tf.data: datasets, which describe input pipelines, and the iterators that run them.
//
// A Dataset is a value in a variant tensor. It never changes: it knows the datasets that it is made of, the tensors and
// functions that it was given, and how to open an Iterator. An Iterator is a small state machine with an explicit Next
// that gives an element or io.EOF. It is used by one goroutine at a time. Stages that work ahead (parallel map, prefetch)
// have goroutines, which the iterator owns and ends in Close.
//
// Each op is read in two steps: a function of its attributes, called once for a node, gives a function of its inputs,
// called for each execution. See settings and inputs.
//
// An iterator resource runs its functions in a library of its own, so that it serves sessions other than the one that
// made it, and after that one has ended.
package data
