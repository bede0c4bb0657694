// Package queues holds TensorFlow's queues: FIFO, padding, shuffling and priority queues.
//
// The behaviour of a queue is a pure state machine ([state] in state.go): requests go in one after the other,
// completions come out, without goroutines, clocks or locks. An [order] decides which element leaves next, so
// that another kind of queue is another order. [Queue] is the thin shell: an actor that passes messages to the
// machine and runs the completions.
//
// Elements are references to tensors. A batch that is enqueued is not split: elements name a row of it, and
// rows that leave together as they came leave as one view of the same memory. If the order separates rows, they
// are copied when they are enqueued.
package queues
