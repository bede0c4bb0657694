// Package reader holds TensorFlow's readers: resources that make records of files (or other units of work)
// whose names come from a queue.
//
// A [Reader] is what all kinds have in common (core/framework/reader_base.cc): the order of callers, the
// current unit of work, the counts. A [Source] is a kind: what a unit of work is and which records it has. An
// operation that waits, for its turn or for a name from the queue, is stored and holds no goroutine. Reading a
// file takes a goroutine of its own, which ends with the operation.
package reader
