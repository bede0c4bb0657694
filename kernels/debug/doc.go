// Package debug implements the ops of TensorFlow's debugger (tfdbg). Package actors/internal/watch inserts these ops after the tensors that
// RunOptions.debug_options watch. Others compute the numeric summaries that check_numerics relies on.
//
// The package also writes the files that the debugger's Python side reads (tensorflow/python/debug/lib/debug_data.py). Each holds a
// tensorflow.Event. There is one for each computed watched tensor, for the graph of each device, and for each run.
package debug
