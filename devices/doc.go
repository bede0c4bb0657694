// Package devices is where partitions of graphs run. It has devices with their memory and executors, programs
// (a partition compiled for one device), the dataflow executor that fires a program's kernels, and the
// rendezvous where the parts of a step meet.
//
// Executor is the actor of a device: parts of steps, and the compilation of their programs, are messages to it.
// Firing follows TensorFlow's semantics: a node fires when all its inputs have arrived in its frame and
// iteration, values of branches that are not taken are dead and propagate, and loops are frames. One goroutine
// at a time owns a run and is the only one to touch the dataflow state, so that firing an op takes no lock and
// no atomic operation. Whatever finishes elsewhere (a receive, a queue, a kernel that moved to another core)
// leaves its result in the run's inbox, and becomes or wakes the owner.
package devices
