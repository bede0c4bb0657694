// Package queues holds TensorFlow's queues: FIFO, padding, shuffling and priority queues.
//
// The behaviour of a queue is a pure state machine ([state] in state.go): requests go in one at a time, completions come out. It has no
// goroutines, clocks or locks. An [order] decides which element leaves next; each kind of queue has its own. [Queue] is the thin shell: an
// actor that passes messages to the machine and runs the completions.
//
// Elements are references to tensors. An enqueued batch is not split: each element refers to a row of it, and rows that leave together in
// their original order leave as one view of the same memory. If the order separates rows, they are copied when they are enqueued.
package queues
