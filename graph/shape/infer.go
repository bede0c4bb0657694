package shape

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Handle describes what is known about one tensor behind a handle (a tensor of DT_RESOURCE or DT_VARIANT), such as a variable, queue
// component or list element: its type and shape.
type Handle struct {
	DType tensor.DType
	Shape Shape
}

// Attrs are an operation's attributes by name. The getters (Type, Int, Str, TypeList and others) return INVALID_ARGUMENT if the attribute
// is missing or has another type.
type Attrs = graph.Attrs

// Node is Infer's view of an operation.
type Node struct {
	// Op is the op's type. Attrs are all its attributes.
	Op    string
	Attrs Attrs
	// In are the shapes of the inputs, and Out the types of the outputs, in order.
	In  []Shape
	Out []tensor.DType
	// Value returns an input's value if it is known before anything runs, otherwise nil. The callee keeps ownership of the tensor. A nil
	// func means that no values are known.
	Value func(input int) *tensor.Tensor
	// Partial returns what is known about the value of an input that is a vector of sizes: a shape, with -1 for unknown sizes. For a
	// scalar, it is a shape of one dimension. It is what Result.Values held for the output that feeds the input. A nil func means that
	// nothing is known.
	Partial func(input int) Shape
	// Handles returns what is known about the tensors behind an input's handle. A nil func means that nothing is known.
	Handles func(input int) []Handle
}

// Result describes an operation's outputs.
type Result struct {
	// Out are the shapes of the outputs, in order.
	Out []Shape
	// Handles describes the tensors behind the handles among the outputs, by output; it is nil if no output is a handle.
	Handles map[int][]Handle
	// Values is what is known about the values of outputs that are sizes, by output; see Node.Partial.
	Values map[int]Shape
}

// Infer infers the shapes of a node's outputs. They are all unknown for an op that is not in the table. INVALID_ARGUMENT names shapes that
// the op does not accept. Infer accepts any node: missing attributes or inputs are errors.
func Infer(n *Node) (*Result, error) {
	c := newCall(n, &Result{Out: make([]Shape, len(n.Out))})
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
	if err := c.Err(); err != nil {
		return nil, status.Errorf(status.CodeOf(err), "%v%s.", strings.TrimSuffix(err.Error(), "."), c.context())
	}
	return c.r, nil
}

// Knows reports whether there is a rule for the op.
func Knows(op string) bool { return table[op] != nil }

// rule checks the shapes of an op's inputs, and sets those of its outputs.
type rule func(c *call)

// row assigns a rule to ops, separated by spaces.
type row struct {
	ops  string
	rule rule
}

// table maps ops to their rules.
var table = index(mathOps, reduceOps, segmentOps, matrixOps, spectralOps, arrayOps, joiningOps, sliceOps, padOps, gatherOps, diagonalOps,
	nnOps, windowOps, patchOps, normOps, rnnOps, ctcOps, quantizedOps, audioOps, stateOps, resourceOps, debugOps, scriptOps, trainingOps, controlOps, dataOps, queueOps, flowOps, tensorArrayOps, listOps, lookupOps,
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

// context describes the rule's inputs for messages: the shapes, and the values that it used.
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
