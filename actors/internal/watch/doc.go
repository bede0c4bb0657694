// Package watch adds the nodes of TensorFlow's debugger (tfdbg) to a graph, as RunOptions.debug_options request.
//
// Each watched tensor gets a Copy and, for each debug op that the watch names, a node that reports the copy (DebugIdentity writes it to a
// file). Users of the tensor use the copy instead and wait for the debug nodes, so everything that a step has done before it fails has been
// reported. There are three exceptions: users of a reference to a variable keep the reference, a Merge waits for just one of its inputs,
// and it takes a NextIteration's output itself, not the copy.
//
//	before:  a ──────────────► b
//	after:   a ──► Copy ─────► b
//	                 └► Debug ─^ (control)
//
// The names are TensorFlow's, because its Python side finds the nodes by them: __copy_NODE_SLOT and __dbg_NODE:SLOT_NUMBER_OP
// (tensorflow/python/debug/lib/debug_graphs.py).
package watch
