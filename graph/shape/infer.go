package shape

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Handle describes what is known of a variable, queue element or list behind a handle (a tensor of DT_RESOURCE
// or DT_VARIANT): the type and shape of each tensor in it.
type Handle struct {
	DType tensor.DType
	Shape Shape
}

// Attrs are an operation's attributes by name. Its getters (Type, Int, Str, TypeList and others) return INVALID_ARGUMENT for an
// attribute that is missing or of another kind.
type Attrs = graph.Attrs

// Node is what Infer sees of an operation.
type Node struct {
	// Op is the op's type, Attrs all its attributes.
	Op    string
	Attrs Attrs
	// In are the shapes of the inputs, in order, Out the types of the outputs.
	In  []Shape
	Out []tensor.DType
	// Value returns an input's value if it is known before anything runs, and nil if not. The tensor stays the
	// callee's. A nil func knows no values.
	Value func(input int) *tensor.Tensor
	// Partial returns what is known of the value of an input that is a vector of sizes: a shape, with -1 for
	// unknown sizes. For a scalar, it is a shape of one dimension. It is what Result.Values held for the output
	// that feeds the input. A nil func knows nothing.
	Partial func(input int) Shape
	// Handles gives what is known of what an input's handle stands for. A nil func knows nothing.
	Handles func(input int) []Handle
}

// Result describes an operation's outputs.
type Result struct {
	// Out are the shapes of the outputs, in order.
	Out []Shape
	// Handles are what the handles among the outputs stand for, by output; nil where no output is a handle.
	Handles map[int][]Handle
	// Values are what is known of the values of outputs that are sizes, by output: see Node.Partial.
	Values map[int]Shape
}

// Infer infers the shapes of a node's outputs. For an op that the table does not have, all are unknown.
// INVALID_ARGUMENT names shapes that the op does not accept. Infer accepts any node: missing attributes or
// inputs are an error.
func Infer(n *Node) (*Result, error) {
	c := &call{Node: n, r: &Result{Out: make([]Shape, len(n.Out))}}
	f, ok := table[n.Op]
	if !ok {
		return c.r, nil
	}
	f(c)
	for i, s := range c.r.Out {
		if len(s.dims) > tensor.MaxRank {
			c.fail("Output %d would have %d dimensions, the limit is %d", i, len(s.dims), tensor.MaxRank)
		}
	}
	if c.err != nil {
		return nil, status.Errorf(status.CodeOf(c.err), "%v%s.", strings.TrimSuffix(c.err.Error(), "."), c.context())
	}
	return c.r, nil
}

// Knows tells whether there is a rule for the op.
func Knows(op string) bool { return table[op] != nil }

// rule checks the shapes of an op's inputs, and sets those of its outputs.
type rule func(c *call)

// row gives ops, separated by spaces, their rule.
type row struct {
	ops  string
	rule rule
}

// table maps ops to their rules.
var table = index(mathOps, reduceOps, segmentOps, matrixOps, spectralOps, arrayOps, joiningOps, sliceOps, padOps, gatherOps, diagonalOps,
	nnOps, windowOps, patchOps, normOps, rnnOps, ctcOps, quantizedOps, audioOps, stateOps, resourceOps, debugOps, trainingOps, controlOps, dataOps, queueOps, flowOps, tensorArrayOps, listOps, lookupOps,
	sparseOps, csrOps, raggedOps, randomOps, stringOps, ioOps, parsingOps, imageOps)

func index(areas ...[]row) map[string]rule {
	t := map[string]rule{}
	for _, rows := range areas {
		for _, r := range rows {
			for _, op := range strings.Fields(r.ops) {
				t[op] = r.rule
			}
		}
	}
	return t
}

// context names what the rule saw: the inputs' shapes, and the values that it asked for.
func (c *call) context() string {
	var b strings.Builder
	b.WriteString(" with input shapes: ")
	for i, s := range c.In {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(s.String())
	}
	sep := " and with computed input values: "
	for i, asked := range c.asked {
		if !asked {
			continue
		}
		if v, ok := c.known(i); ok {
			fmt.Fprintf(&b, "%sinput[%d] = <%s>", sep, i, strings.Trim(fmt.Sprint(v[:min(len(v), 64)]), "[]"))
			sep = ", "
		}
	}
	return b.String()
}
