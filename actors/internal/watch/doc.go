// Package watch puts the nodes of TensorFlow's debugger (tfdbg) into a graph: what RunOptions.debug_options ask for.
//
// Behind each tensor that is watched come a Copy, and for each debug op that the watch names a node that tells what the copy
// is (DebugIdentity writes it to a file). Who uses the tensor uses the copy instead, and waits for the debug nodes, so that
// what a step has done before it fails has been told. Three things stay as they were: users of a reference to a variable get
// the reference, a Merge waits for nothing but one of its inputs, and takes what a NextIteration gives from itself.
//
//	before:  a ──────────────► b
//	after:   a ──► Copy ─────► b
//	                 └► Debug ─^ (control)
//
// The names are TensorFlow's, since its Python side finds the nodes by them: __copy_NODE_SLOT and
// __dbg_NODE:SLOT_NUMBER_OP (tensorflow/python/debug/lib/debug_graphs.py).
package watch
