// Package reader implements TensorFlow's readers: resources that produce records from files (or other units of work) whose names come from
// a queue.
//
// A [Reader] is the common part of all kinds (core/framework/reader_base.cc): the order of callers, the current unit of work, and the
// counts. A [Source] is one kind: it defines what a unit of work is and which records it has. An operation that waits for its turn or for a
// name from the queue is stored, and holds no goroutine. Reading a file uses a goroutine, which ends with the operation.
package reader
