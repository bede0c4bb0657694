// Package transfer names the tensors that the parts of a step send each other.
package transfer

// Tag identifies the loop iteration that an execution belongs to. The zero Tag is outside all loops. Frame is a number derived from the
// names and iterations of the enclosing frames, so all parts of a step agree on it without communicating.
type Tag struct {
	Frame uint64
	Iter  int64
}

// Key names a transfer within a step: an edge and the loop iteration that it belongs to.
type Key struct {
	Edge string
	Tag  Tag
}
