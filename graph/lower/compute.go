package lower

import (
	"fmt"
	"maps"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// compute adds nodes that compute values, and keeps the first error.
type compute struct {
	*site
	err    error
	before []*graph.Node // control inputs of constants
}

// compute returns a compute for the site.
func (s *site) compute() *compute {
	c := &compute{site: s}
	c.before, c.err = s.anchor()
	return c
}

// anchor returns the control inputs of constants added on behalf of the node, so that they run as often as the node would.
func (s *site) anchor() ([]*graph.Node, error) {
	if len(s.node.Inputs) == 0 {
		return s.node.Controls, nil
	}
	n, err := s.add("begins", "Identity", s.node.Inputs[0].Node.Requested, s.node.Controls, s.node.Inputs[0])
	return []*graph.Node{n}, err
}

func (c *compute) op(name, op string, t tensor.DType, attrs graph.Attrs, inputs ...graph.Output) graph.Output {
	if c.err != nil {
		return graph.Output{}
	}
	n, err := c.add(name, op, c.node.Requested, nil, inputs...)
	if err != nil {
		c.err = err
		return graph.Output{}
	}
	n.OutTypes = []tensor.DType{t}
	if t == tensor.Invalid {
		n.OutTypes = nil
	}
	for _, a := range n.Def.GetAttr() {
		if _, ok := n.Attrs[a.Name]; !ok && a.DefaultValue != nil {
			n.Attrs[a.Name] = a.DefaultValue
		}
	}
	maps.Copy(n.Attrs, attrs)
	return graph.Output{Node: n}
}

func (c *compute) constant(name string, v *tensorpb.TensorProto) graph.Output {
	if c.err != nil {
		return graph.Output{}
	}
	var out graph.Output
	out, c.err = c.site.constant(name, v, c.before...)
	return out
}

// assert adds a node that fails with the data unless ok is true.
func (c *compute) assert(name string, ok graph.Output, data ...graph.Output) *graph.Node {
	if c.err != nil {
		return nil
	}
	types := &attrpb.AttrValue_ListValue{}
	for _, d := range data {
		types.Type = append(types.Type, d.Node.OutTypes[d.Index].Proto())
	}
	return c.op(name, "Assert", tensor.Invalid, graph.Attrs{"T": {Value: &attrpb.AttrValue_List{List: types}}}, append([]graph.Output{ok}, data...)...).Node
}

func intTensor(v int32) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_INT32, TensorShape: &shapepb.TensorShapeProto{}, IntVal: []int32{v}}
}

func stringTensor(s string) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: typespb.DataType_DT_STRING, TensorShape: &shapepb.TensorShapeProto{}, StringVal: [][]byte{[]byte(s)}}
}

// constant adds a constant, after controls.
func (s *site) constant(name string, v *tensorpb.TensorProto, controls ...*graph.Node) (graph.Output, error) {
	n, err := s.add(name, "Const", s.node.Requested, controls)
	if err != nil {
		return graph.Output{}, err
	}
	n.OutTypes = []tensor.DType{tensor.FromProto(v.Dtype)}
	n.Attrs["dtype"] = typeAttr(n.OutTypes[0])
	n.Attrs["value"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: v}}
	return graph.Output{Node: n}, nil
}

// count builds the frame of a For: an index from start by delta up to limit, and the body's variables.
func (s *site) count(body *graph.FunctionRef) error {
	f := s.newFrame()
	c := s.compute()
	cast := func(name string, in graph.Output, from, to tensor.DType) graph.Output {
		return c.op(name, "Cast", to, graph.Attrs{"SrcT": typeAttr(from), "DstT": typeAttr(to)}, in)
	}
	wide := [3]graph.Output{}
	for i, name := range []string{"start", "limit", "delta"} {
		wide[i] = cast(name, s.node.Inputs[i], tensor.Int32, tensor.Int64)
	}
	start64, limit, delta := wide[0], wide[1], wide[2]
	sign := c.op("sign", "Sign", tensor.Int64, nil, delta)
	ahead := c.op("ahead", "Equal", tensor.Bool, nil, sign, c.op("direction", "Sign", tensor.Int64, nil, c.op("distance", "Sub", tensor.Int64, nil, limit, start64)))
	valid := c.op("valid", "LogicalOr", tensor.Bool, nil, c.op("empty", "Equal", tensor.Bool, nil, start64, limit), ahead)
	checked := c.assert("checked", valid, c.constant("message", stringTensor("Invalid start/limit/delta")), start64, limit, delta)
	end := c.op("end", "Mul", tensor.Int64, nil, limit, sign)
	if c.err != nil {
		return c.err
	}
	start64.Node.Controls = s.node.Controls
	f.vars = []variable{{start: start64}, {start: end, constant: true}, {start: sign, constant: true}, {start: delta, constant: true}}
	first := len(f.vars)
	for _, in := range s.node.Inputs[3:] {
		f.vars = append(f.vars, variable{start: in})
	}
	if err := f.open(); err != nil {
		return err
	}
	f.vars[0].enter.Controls = append(f.vars[0].enter.Controls[:len(f.vars[0].enter.Controls):len(f.vars[0].enter.Controls)], checked)
	v := f.read(0, first)
	if err := f.decide(c.op("more", "Less", tensor.Bool, nil, c.op("at", "Mul", tensor.Int64, nil, v[0], v[2]), v[1]), nil); err != nil {
		return err
	}
	taken, err := f.taken()
	if err != nil {
		return err
	}
	in := f.inside(0, len(f.vars))
	args := append([]graph.Output{cast("index", in[0], tensor.Int64, tensor.Int32)}, in[first:]...)
	next := []graph.Output{c.op("following", "AddV2", tensor.Int64, nil, in[0], in[3]), {}, {}, {}}
	if c.err != nil {
		return c.err
	}
	results, done, err := s.inline("/body", body, args, s.node.Requested, start{nodes: []*graph.Node{taken}, all: true})
	if err != nil {
		return err
	}
	if len(results) != len(args)-1 {
		return status.InvalidArgumentf("For loop body returned %d arguments. Expected: %d", len(results), len(args)-1)
	}
	if err := f.close(append(next, results...), taken, done); err != nil {
		return err
	}
	s.results = s.results[first:]
	return nil
}

// remoteCall inlines a function on the device named by the first input. If that is not a constant, it inlines the function on every
// device, and the name selects one.
func (s *site) remoteCall(ref *graph.FunctionRef) error {
	target, args := s.node.Inputs[0], s.node.Inputs[1:]
	if target.Node.Op == "Const" {
		t, err := target.Node.Attrs.Tensor("value")
		if err != nil {
			return err
		}
		if len(t.GetStringVal()) != 1 {
			return status.InvalidArgumentf("The target of a RemoteCall must be one device's name")
		}
		return s.call(ref, args, string(t.GetStringVal()[0]))
	}
	names := &tensorpb.TensorProto{Dtype: typespb.DataType_DT_STRING, StringVal: s.spellings()}
	names.TensorShape = &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: int64(len(names.StringVal))}}}
	c := s.compute()
	same := c.op("same", "Equal", tensor.Bool, nil, target, c.constant("devices", names))
	axis := c.constant("axis", intTensor(0))
	index := graph.Attrs{"Tidx": typeAttr(tensor.Int32)}
	known := c.assert("known", c.op("any", "Any", tensor.Bool, index, same, axis), c.constant("message", stringTensor("RemoteCall: there is no device")), target)
	number := c.op("number", "Cast", tensor.Int32, graph.Attrs{"SrcT": typeAttr(tensor.Bool), "DstT": typeAttr(tensor.Int32)}, same)
	first := c.op("first", "ArgMax", tensor.Int32, graph.Attrs{"Tidx": typeAttr(tensor.Int32), "output_type": typeAttr(tensor.Int32)}, number, axis)
	which := c.op("which", "FloorMod", tensor.Int32, nil, first, c.constant("number_of_devices", intTensor(int32(len(s.devices)))))
	if c.err != nil {
		return c.err
	}
	first.Node.Controls = []*graph.Node{known}
	return s.choose(len(s.devices), false, which, args, func(i int, name string, args []graph.Output, begin start) ([]graph.Output, []*graph.Node, error) {
		return s.inline(fmt.Sprintf("%s_device", name), ref, args, s.devices[i].Name, begin)
	})
}

// spellings returns the names of all devices as programs write them: with and without the replica, the type's prefix and, on the node's
// own task, the task. Each form lists every device, in order.
func (s *site) spellings() [][]byte {
	own, err := place.Parse(s.node.Requested)
	local := func(d place.Device) bool {
		return err == nil && own.Job == d.Spec.Job && own.Task == d.Spec.Task
	}
	var out [][]byte
	for _, task := range []func(d place.Device) string{
		func(d place.Device) string { return d.Spec.OnTask().String() },
		func(d place.Device) string { return fmt.Sprintf("/job:%s/task:%d", d.Spec.Job, d.Spec.Task) },
		func(d place.Device) string {
			if local(d) {
				return ""
			}
			return d.Spec.OnTask().String()
		},
	} {
		for _, form := range []string{"%s/device:%s:%d", "%s/%s:%d"} {
			for _, letters := range []func(string) string{strings.ToUpper, strings.ToLower} {
				for _, d := range s.devices {
					out = append(out, fmt.Appendf(nil, form, task(d), letters(d.Spec.Type), d.Spec.Index))
				}
			}
		}
	}
	return out
}
