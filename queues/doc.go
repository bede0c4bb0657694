// Package queues holds TensorFlow's queues: first in first out, with padding, shuffling, by priority.
//
// What a queue does is a pure state machine ([state] in state.go): requests go in one after the
// other, completions come out, no goroutine, no clock, no lock. Which element leaves next is an
// [order] of its own, so that a queue of another kind is another order. [Queue] is the thin
// shell: an actor that hands messages to the machine and runs the completions.
//
// Elements are references to tensors. A batch that is enqueued is not cut up: elements name a
// row of it, and rows that leave together as they came leave as one view of the same memory. Where
// the order takes rows apart they are copied as they go in.
package queues
