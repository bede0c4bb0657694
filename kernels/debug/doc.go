// Package debug has the ops of TensorFlow's debugger (tfdbg): those that package actors/internal/watch puts behind the tensors that
// RunOptions.debug_options watch, and the summaries of numbers that check_numerics is made of. It also writes the files that
// the debugger's Python side reads (tensorflow/python/debug/lib/debug_data.py): one with a tensorflow.Event for each
// watched tensor that was computed, for the graph of each device, and for each run.
package debug
