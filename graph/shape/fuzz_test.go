package shape

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// TestRulesTakeAnything runs every rule on nodes that no client would send. A rule must not panic, and must return a shape within bounds
// or INVALID_ARGUMENT.
func TestRulesTakeAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, op := range slices.Sorted(maps.Keys(table)) {
		for range 40 {
			n := hostile(r, op)
			result, err := func() (result *Result, err error) {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s with %v, attributes %v: %v", op, n.In, n.Attrs, p)
						result = &Result{}
					}
				}()
				return Infer(n)
			}()
			if err != nil {
				if status.CodeOf(err) != status.InvalidArgument {
					t.Errorf("%s: %v", op, err)
				}
				continue
			}
			for _, s := range result.Out {
				if len(s.dims) > tensor.MaxRank || slices.ContainsFunc(s.dims, func(d int64) bool { return d < -1 }) {
					t.Errorf("%s with %v, attributes %v: %v", op, n.In, n.Attrs, s)
				}
			}
		}
	}
}

var wild = []int64{0, 1, 2, 3, 4, 7, 253, 1 << 31, 1 << 40, 1<<63 - 1}

func hostileShape(r *rand.Rand) Shape {
	if r.IntN(6) == 0 {
		return Shape{}
	}
	rank := r.IntN(5)
	if r.IntN(30) == 0 {
		rank = 254
	}
	dims := make(tensor.Shape, rank)
	for i := range dims {
		dims[i] = append(wild, -1)[r.IntN(len(wild)+1)]
		if rank == 254 || r.IntN(3) > 0 {
			dims[i] = int64(r.IntN(5) - 1)
		}
	}
	return Shape{dims, true}
}

func hostileInt(r *rand.Rand) int64 {
	v := wild[r.IntN(len(wild))]
	if r.IntN(3) > 0 {
		v = int64(r.IntN(4))
	}
	if r.IntN(4) == 0 {
		v = -v - int64(r.IntN(2))
	}
	return v
}

// hostile returns a node with any number of inputs and outputs, whose attributes have the right types or are missing.
func hostile(r *rand.Rand, op string) *Node {
	n := &Node{Op: op, Attrs: graph.Attrs{}, In: make([]Shape, r.IntN(9)), Out: make([]tensor.DType, r.IntN(9))}
	for i := range n.In {
		n.In[i] = hostileShape(r)
	}
	types := []tensor.DType{tensor.Float32, tensor.Int32, tensor.Int64, tensor.Resource, tensor.Variant, tensor.String}
	for i := range n.Out {
		n.Out[i] = types[r.IntN(len(types))]
	}
	values := make([]*tensor.Tensor, len(n.In))
	partial := make([]Shape, len(n.In))
	handles := make([][]Handle, len(n.In))
	for i := range n.In {
		switch r.IntN(4) {
		case 0:
			v := make([]int64, r.IntN(6))
			for j := range v {
				v[j] = hostileInt(r)
			}
			shape := tensor.Shape{int64(len(v))}
			if len(v) == 1 && r.IntN(2) == 0 {
				shape = tensor.Shape{}
			}
			values[i], _ = tensor.FromSlice(tensor.Int64, shape, v)
		case 1:
			values[i], _ = tensor.FromStrings(tensor.Shape{1}, []string{"3 4 0,2:-"})
		}
		if r.IntN(3) == 0 {
			partial[i] = hostileShape(r)
		}
		for range r.IntN(3) {
			handles[i] = append(handles[i], Handle{types[r.IntN(len(types))], hostileShape(r)})
		}
	}
	n.Value = func(i int) *tensor.Tensor { return values[i] }
	n.Partial = func(i int) Shape { return partial[i] }
	n.Handles = func(i int) []Handle { return handles[i] }
	if decl, err := graph.LookupOp(op); err == nil {
		for _, a := range decl.Attr {
			if v := hostileAttr(r, a.Type, types); v != nil && r.IntN(12) > 0 {
				n.Attrs[a.Name] = v
				if a.DefaultValue != nil && r.IntN(2) == 0 {
					n.Attrs[a.Name] = proto.Clone(a.DefaultValue).(*attrpb.AttrValue)
				}
				if s := a.AllowedValues.GetList().GetS(); len(s) > 0 && r.IntN(8) > 0 {
					n.Attrs[a.Name] = &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: s[r.IntN(len(s))]}}
				}
			}
		}
	}
	return n
}

func hostileAttr(r *rand.Rand, kind string, types []tensor.DType) *attrpb.AttrValue {
	list := &attrpb.AttrValue_ListValue{}
	for range r.IntN(7) {
		switch kind {
		case "list(int)":
			list.I = append(list.I, hostileInt(r))
		case "list(type)":
			list.Type = append(list.Type, typespb.DataType(types[r.IntN(len(types))]))
		case "list(shape)":
			list.Shape = append(list.Shape, hostileShape(r).dims.Proto())
		case "list(string)":
			list.S = append(list.S, []byte([]string{"ROW_SPLITS", "VALUE_ROWIDS", "FIRST_DIM_SIZE", "x"}[r.IntN(4)]))
		}
	}
	switch kind {
	case "int":
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: hostileInt(r)}}
	case "float":
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_F{F: r.Float32()}}
	case "bool":
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: r.IntN(2) == 0}}
	case "string":
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte([]string{"", "ab,bc->ac", "...a->...", "...->", "a.->.a", "{}"}[r.IntN(6)])}}
	case "type":
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: types[r.IntN(len(types))].Proto()}}
	case "shape":
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: hostileShape(r).dims.Proto()}}
	case "list(int)", "list(type)", "list(shape)", "list(string)":
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}
	}
	return nil
}
