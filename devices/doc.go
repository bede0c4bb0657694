// Package devices runs partitions of graphs. It has devices with their memory and executors, programs (partitions compiled for one device),
// the dataflow executor that fires a program's kernels, and the rendezvous through which the parts of a step exchange tensors.
//
// Executor is the actor of a device: running parts of steps and compiling their programs are messages to it. Firing follows TensorFlow's
// semantics. A node fires when all its inputs have arrived in its frame and iteration. Values of branches that are not taken are dead, and
// deadness propagates. Loops are frames. Only one goroutine at a time, the owner, touches a run's dataflow state, so firing an op takes no
// lock and no atomic operation. Work that finishes elsewhere (a receive, a queue, a kernel that moved to another core) leaves its result in
// the run's inbox, and becomes or wakes the owner.
package devices
