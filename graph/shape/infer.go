package shape

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Handle is what is known of a variable, queue element or list behind a handle (a tensor of DT_RESOURCE or
// DT_VARIANT): the type and shape of each tensor that lies there.
type Handle struct {
	DType tensor.DType
	Shape Shape
}

// Node is what Infer sees of an operation.
type Node struct {
	// Op is the op's type, Attrs all its attributes.
	Op    string
	Attrs graph.Attrs
	// In are the shapes of the inputs, in order, Out the types of the outputs.
	In  []Shape
	Out []tensor.DType
	// Value gives an input's value where it is known before anything runs, nil where it is not. The
	// tensor stays the giver's. A nil func knows no values.
	Value func(input int) *tensor.Tensor
	// Handles gives what is known of what an input's handle stands for. A nil func knows nothing.
	Handles func(input int) []Handle
}

// Result is what follows for an operation's outputs.
type Result struct {
	// Out are the shapes of the outputs, in order.
	Out []Shape
	// Handles are what the handles among the outputs stand for, by output; nil where no output is a handle.
	Handles map[int][]Handle
}

// Infer infers the shapes of a node's outputs: all unknown for an op of which the table knows nothing. An error
// is INVALID_ARGUMENT and tells the shapes that the op does not take.
func Infer(n *Node) (*Result, error) {
	r := &Result{Out: make([]Shape, len(n.Out))}
	f, ok := table[n.Op]
	if !ok {
		return r, nil
	}
	if err := f(n, r); err != nil {
		return nil, err
	}
	for i, s := range r.Out {
		if len(s.dims) > tensor.MaxRank {
			return nil, status.InvalidArgumentf("Output %d would have %d dimensions, the limit is %d", i, len(s.dims), tensor.MaxRank)
		}
	}
	return r, nil
}

// rule states what an op demands of its inputs' shapes, and sets those of its outputs.
type rule func(n *Node, r *Result) error

// table maps ops to their rules. The files named after areas of ops fill it.
var table = map[string]rule{}
