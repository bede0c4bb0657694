// Package data implements the ops of tf.data: datasets, which describe input pipelines, and the iterators that run them.
//
// A Dataset is a value in a variant tensor. It is immutable. It holds its input datasets, its tensors and its functions, and opens
// Iterators. An Iterator is a small state machine with an explicit Next that returns an element or io.EOF. Only one goroutine may use it at
// a time. Stages that work ahead (parallel map, prefetch) have goroutines, which the iterator owns and stops in Close.
//
// Each op is parsed in two steps. A function of its attributes, called once for a node, returns a function of its inputs, which is called
// for each execution. See settings and inputs.
//
// An iterator resource runs its functions in its own library. It can therefore serve sessions other than the one that created it, even
// after that session has ended.
package data
