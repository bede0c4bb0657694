package op

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Ops that do not accept all arguments of the right types: the required shapes of inputs, values of attributes, and lengths of lists.
var (
	inputShapes = map[string]map[string]shape.Shape{
		"ApproxTopK": {"input": shape.Of(-1, 3)}, "ParallelConcat": {"values": shape.Of(1, 3)}, "BatchToSpaceND": {"block_shape": shape.Of(2)}, "SpaceToBatchND": {"block_shape": shape.Of(2)}}
	attrValues = map[string]map[string]any{
		"Conv2D":                  {"strides": []int64{1, 1, 1, 1}},
		"AudioSpectrogram":        {"window_size": int64(4)},
		"FusedPadConv2D":          {"strides": []int64{1, 1, 1, 1}},
		"FusedResizeAndPadConv2D": {"strides": []int64{1, 1, 1, 1}},
		"QuantizedConv2D":         {"strides": []int64{1, 1, 1, 1}},
		"QuantizedMaxPool":        {"ksize": []int64{1, 1, 1, 1}, "strides": []int64{1, 1, 1, 1}},
		"QuantizedAvgPool":        {"ksize": []int64{1, 1, 1, 1}, "strides": []int64{1, 1, 1, 1}},
		"DepthwiseConv2dNative":   {"strides": []int64{1, 1, 1, 1}},
		"Einsum":                  {"equation": "ab,bc->ac"},
		"ParseSequenceExample": {
			"context_sparse_keys": []string{}, "context_dense_keys": []string{}, "feature_list_sparse_keys": []string{}},
		"PriorityQueue":        {"shapes": []shape.Shape{}},
		"PriorityQueueV2":      {"shapes": []shape.Shape{}},
		"RaggedTensorToTensor": {"row_partition_types": []string{"ROW_SPLITS", "ROW_SPLITS"}}}
	listLengths = map[string]int{
		"StringFormat": 1, "ParseExampleV2": 1, "ParseSingleExample": 1, "ParseSequenceExample": 0, "ParseSequenceExampleV2": 0}
)

// TestConstructors calls every generated constructor with tensors of unknown shapes, and checks that a master accepts the graph and that
// each result is the corresponding output argument.
func TestConstructors(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(constructors)) {
		s := NewScope()
		def, err := graph.LookupOp(name)
		if err != nil {
			t.Fatal(err)
		}
		call := &construction{s: s, def: def, types: map[string]tensor.DType{}}
		results := reflect.ValueOf(constructors[name]).Call(call.args(t))
		g, err := s.GraphDef()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		built, err := graph.Build(g)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		node := s.Operation(name)
		if node == nil || built.Lookup(name) == nil || built.Lookup(name).Op != name {
			t.Errorf("%s added no node of its name", name)
			continue
		}
		at := 0
		for i, r := range results {
			switch v := r.Interface().(type) {
			case *Operation:
				if v != node || len(def.OutputArg) != 0 {
					t.Errorf("%s gives another operation than it added", name)
				}
			case Output:
				if v != node.Output(at) {
					t.Errorf("%s: result %d is %v, not output %d", name, i, v.Name(), at)
				}
				at++
			case []Output:
				for _, o := range v {
					if o != node.Output(at) {
						t.Errorf("%s: result %d holds %v, not output %d", name, i, o.Name(), at)
					}
					at++
				}
			}
		}
		if at != node.NumOutputs() {
			t.Errorf("%s gives %d of %d outputs", name, at, node.NumOutputs())
		}
	}
}

// construction builds arguments for a constructor.
type construction struct {
	s     *Scope
	def   *graph.OpDef
	types map[string]tensor.DType // what type attributes are
}

func (c *construction) args(t *testing.T) []reflect.Value {
	f := reflect.TypeOf(constructors[c.def.Name])
	args := []reflect.Value{reflect.ValueOf(c.s)}
	follows := map[string]bool{}
	for _, a := range c.def.InputArg {
		follows[a.TypeAttr], follows[a.NumberAttr], follows[a.TypeListAttr] = true, true, true
		if a.TypeListAttr == "" && a.NumberAttr == "" {
			args = append(args, reflect.ValueOf(c.input(a)))
			continue
		}
		n := 2
		if given, ok := listLengths[c.def.Name]; ok {
			n = given
		}
		if attr := c.attr(a.NumberAttr + a.TypeListAttr); attr != nil {
			n = max(n, int(attr.Minimum))
		}
		list := make([]Output, n)
		for i := range list {
			list[i] = c.input(a)
		}
		args = append(args, reflect.ValueOf(list))
	}
	for _, a := range c.def.Attr {
		if follows[a.Name] || a.DefaultValue != nil {
			continue
		}
		v, ok := attrValues[c.def.Name][a.Name]
		if !ok {
			v = c.value(a)
		}
		if v == nil {
			t.Fatalf("%s: no value for an attribute of type %s", c.def.Name, a.Type)
		}
		args = append(args, reflect.ValueOf(v))
	}
	if want := f.NumIn(); f.IsVariadic() && len(args) != want-1 || !f.IsVariadic() && len(args) != want {
		t.Fatalf("%s takes %d parameters; its declaration has %d", c.def.Name, want, len(args))
	}
	return args
}

func (c *construction) attr(name string) *oppb.OpDef_AttrDef {
	i := slices.IndexFunc(c.def.Attr, func(a *oppb.OpDef_AttrDef) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return c.def.Attr[i]
}

// typeOf returns the first type that an attribute allows.
func (c *construction) typeOf(name string) tensor.DType {
	if allowed := c.attr(name).AllowedValues.GetList().GetType(); len(allowed) > 0 {
		return tensor.FromProto(allowed[0])
	}
	return tensor.Float32
}

func (c *construction) input(a *oppb.OpDef_ArgDef) Output {
	dtype := tensor.FromProto(a.Type)
	if name := a.TypeAttr + a.TypeListAttr; name != "" {
		dtype = c.typeOf(name)
	}
	if a.IsRef {
		return VariableV2(c.s.WithName("input"), shape.Unknown(), dtype)
	}
	if c.def.Name == "ResourceCountUpTo" {
		return VarHandleOp(c.s.WithName("input"), c.typeOf("T"), shape.Scalar())
	}
	return Placeholder(c.s.WithName("input"), dtype, attr.Shape(inputShapes[c.def.Name][a.Name]))
}

func (c *construction) value(a *oppb.OpDef_AttrDef) any {
	n := max(a.Minimum, 1)
	text := "x"
	if allowed := a.AllowedValues.GetList().GetS(); len(allowed) > 0 {
		text = string(allowed[0])
	}
	switch a.Type {
	case "string":
		return text
	case "int":
		return n
	case "float":
		return float32(1)
	case "bool":
		return true
	case "type":
		return c.typeOf(a.Name)
	case "shape":
		return shape.Of(2, 3)
	case "tensor":
		return tensor.Scalar(tensor.Float32, float32(1))
	case "func":
		return Func("f")
	case "list(string)":
		return slices.Repeat([]string{text}, int(n))
	case "list(int)":
		return slices.Repeat([]int64{1}, int(n))
	case "list(float)":
		return slices.Repeat([]float32{1}, int(n))
	case "list(type)":
		return slices.Repeat([]tensor.DType{c.typeOf(a.Name)}, int(n))
	case "list(shape)":
		return slices.Repeat([]shape.Shape{shape.Of(2, 3)}, int(n))
	case "list(func)":
		return slices.Repeat([]Func{"f"}, int(n))
	}
	return nil
}

// TestAttributes: optional attributes are checked for duplicates and for ops that do not have them.
func TestAttributes(t *testing.T) {
	s := NewScope()
	x := Placeholder(s, tensor.Float32, attr.Shape(shape.Of(2, 3)))
	if got := x.Shape().String(); got != "[2,3]" {
		t.Errorf("shape %s", got)
	}
	y := MatMul(s, x, x, attr.TransposeB(true))
	if !y.Op.Attrs()["transpose_b"].GetB() || y.Op.Attrs()["transpose_a"].GetB() {
		t.Errorf("attributes %v", y.Op.Attrs())
	}
	for want, add := range map[string]func(s *Scope, x Output){
		"Relu has no attribute 'transpose_a'":                   func(s *Scope, x Output) { Relu(s, x); s.add("Relu", nil, []attr.Attr{attr.TransposeA(true)}, x) },
		"MatMul has the attribute 'transpose_a' twice":          func(s *Scope, x Output) { MatMul(s, x, x, attr.TransposeA(true), attr.TransposeA(false)) },
		"Placeholder has the attribute 'dtype' twice":           func(s *Scope, x Output) { Placeholder(s, tensor.Int32, attr.Dtype(tensor.Int64)) },
		"Value for attr 'data_format' of \"CHW\" is not in the": func(s *Scope, x Output) { BiasAdd(s, x, x, attr.DataFormat("CHW")) },
	} {
		s := NewScope()
		add(s, Placeholder(s, tensor.Float32))
		checkError(t, s, want, "construct_test.go:")
	}
}
