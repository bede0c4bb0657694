// Package dataset has what datasets and their iterators are made of.
//
// A Dataset is a value in a variant tensor. It is immutable. It holds its input datasets, its tensors and its functions, and opens
// Iterators. What distinguishes the datasets of one op from others is their Kind. An Iterator is a small state machine with an explicit Next
// that returns an element or io.EOF. Only one goroutine may use it at a time. Stages that work ahead (parallel map, prefetch) have
// goroutines, which the iterator owns and stops in Close: a Crew.
//
// Each op is parsed in two steps. A function of its attributes, called once for a node, returns a function of its inputs, which is called
// for each execution. See New, Settings and Inputs.
//
// An iterator runs in an Env, the environment of its pipeline, and each request for elements is a Call. The Env runs functions in its own
// library. A pipeline can therefore serve sessions other than the one that created it, even after that session has ended.
//
// A dataset is also a graph, the form in which it is saved and sent. See ToGraph and FromGraph.
package dataset
