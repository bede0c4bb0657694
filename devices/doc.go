// Package devices is where work runs: devices with their memory and workers, programs (a
// partition of a graph compiled for one device), the dataflow executor that fires a program's
// kernels, and the rendezvous where the parts of a step meet.
//
// The executor keeps TensorFlow's semantics: a node fires when all its inputs have arrived in
// its frame and iteration, values of branches not taken are dead and spread, loops are frames.
// One goroutine at a time owns a run: it alone touches the dataflow state, so that firing an op
// takes no lock and no atomic operation. Whatever finishes elsewhere (a receive, a queue, a
// kernel handed to another core) leaves its result in the run's inbox, and becomes or wakes the
// owner.
package devices
