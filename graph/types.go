package graph

import (
	"math"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// maxArgs is the most tensors that one node may take or yield. TensorFlow's only limit is int32; without a lower one, a small message
// could claim gigabytes.
const maxArgs = 1 << 20

// maxOutputs limits a graph's outputs, besides a few for each node. Each costs memory in every step, and a few bytes of a message can
// declare a million.
const maxOutputs = 1 << 22

// typer computes the types of nodes' inputs and outputs. It shares their memory, since most graphs have many nodes but few distinct lists
// of types.
type typer struct {
	slab []tensor.DType
	// runs holds, for each type, a list of only that type; its prefixes serve as the types of repeated arguments.
	runs map[tensor.DType][]tensor.DType
}

// types returns the types of args, given the node's attribute values by position. limit bounds their number.
func (t *typer) types(args []argSpec, fixed []tensor.DType, vals []*attrpb.AttrValue, limit int) ([]tensor.DType, error) {
	if fixed != nil {
		return fixed, nil
	}
	if len(args) == 1 && args[0].listAttr == none {
		n, err := args[0].count(vals, limit)
		if err != nil {
			return nil, err
		}
		return t.run(args[0].elem(vals), n), nil
	}
	total := 0
	for i := range args {
		n, err := args[i].count(vals, limit-total)
		if err != nil {
			return nil, err
		}
		total += n
	}
	out := t.take(total)[:0]
	for i := range args {
		out = args[i].appendTypes(out, vals)
	}
	return out, nil
}

// count returns the number of tensors that an argument stands for.
func (a *argSpec) count(vals []*attrpb.AttrValue, limit int) (int, error) {
	n := int64(1)
	switch {
	case a.listAttr != none:
		n = int64(len(vals[a.listAttr].GetList().GetType()))
	case a.numberAttr != none:
		n = vals[a.numberAttr].GetI()
	}
	switch {
	case n < 0 || n > math.MaxInt32:
		return 0, status.InvalidArgumentf("Value for number_attr() %d of argument '%s' is not a possible number of tensors", n, a.name)
	case n > int64(limit):
		return 0, &tooManyArgs{a.name, n}
	}
	return int(n), nil
}

// tooManyArgs is the error of types and count for an argument that stands for more tensors than the limit. The caller turns it into an
// error about its own limit.
type tooManyArgs struct {
	arg string
	n   int64
}

func (e *tooManyArgs) Error() string {
	return "Argument '" + e.arg + "' stands for " + plural(e.n, "tensor") + ", which is too many"
}

// elem returns the type of an argument that has only one.
func (a *argSpec) elem(vals []*attrpb.AttrValue) tensor.DType {
	t := a.dtype
	if a.typeAttr != none {
		t = tensor.FromProto(vals[a.typeAttr].GetType())
	}
	if a.ref {
		t = t.Ref()
	}
	return t
}

// appendTypes appends the types of the tensors that the argument stands for.
func (a *argSpec) appendTypes(out []tensor.DType, vals []*attrpb.AttrValue) []tensor.DType {
	if a.listAttr != none {
		for _, p := range vals[a.listAttr].GetList().GetType() {
			t := tensor.FromProto(p)
			if a.ref {
				t = t.Ref()
			}
			out = append(out, t)
		}
		return out
	}
	n := int64(1)
	if a.numberAttr != none {
		n = vals[a.numberAttr].GetI()
	}
	elem := a.elem(vals)
	for range n {
		out = append(out, elem)
	}
	return out
}

// run returns a list of n times the type elem.
func (t *typer) run(elem tensor.DType, n int) []tensor.DType {
	have := t.runs[elem]
	if len(have) < n {
		have = make([]tensor.DType, max(n, 2*len(have), 4))
		for i := range have {
			have[i] = elem
		}
		if t.runs == nil {
			t.runs = map[tensor.DType][]tensor.DType{}
		}
		t.runs[elem] = have
	}
	return have[:n:n]
}

// take allocates memory for n types.
func (t *typer) take(n int) []tensor.DType {
	if n > len(t.slab) {
		t.slab = make([]tensor.DType, max(n, 512))
	}
	out := t.slab[:n:n]
	t.slab = t.slab[n:]
	return out
}
