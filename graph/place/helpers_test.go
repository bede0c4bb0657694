package place

import (
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// sketch builds graphs by hand.
type sketch struct {
	nodes  []*graph.Node
	byName map[string]*graph.Node
}

// node adds a node to a sketch.
func (s *sketch) node(name, op string, opts ...func(*sketch, *graph.Node)) *graph.Node {
	n := &graph.Node{ID: len(s.nodes), Name: name, Op: op, Def: &oppb.OpDef{Name: op}, Attrs: graph.Attrs{}}
	switch op {
	case "Const", "Placeholder", "Add", "Identity", "Shape", "Read", "NoKernel":
		n.OutTypes = []tensor.DType{tensor.Float32}
	case "VariableV2", "Assign", "RefIdentity":
		n.OutTypes = []tensor.DType{tensor.Float32.Ref()}
	case "VarHandleOp", "FIFOQueueV2", "HashTableV2":
		n.OutTypes = []tensor.DType{tensor.Resource}
	}
	switch op {
	case "VariableV2", "VarHandleOp", "FIFOQueueV2", "HashTableV2":
		n.Def.IsStateful = true
		n.Attrs["shared_name"] = stringAttr("")
		n.Attrs["container"] = stringAttr("")
	}
	for _, o := range opts {
		o(s, n)
	}
	if s.byName == nil {
		s.byName = map[string]*graph.Node{}
	}
	s.nodes = append(s.nodes, n)
	s.byName[name] = n
	return n
}

func (s *sketch) graph() *graph.Graph { return graph.New(s.nodes, nil, 0) }

func stringAttr(v string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(v)}}
}

type option = func(*sketch, *graph.Node)

// on requests a device.
func on(device string) option { return func(_ *sketch, n *graph.Node) { n.Requested = device } }

// in reads the first outputs of nodes; uses takes them as references or handles.
func in(names ...string) option {
	return func(s *sketch, n *graph.Node) {
		for _, name := range names {
			from := s.byName[name]
			n.Inputs = append(n.Inputs, graph.Output{Node: from})
			n.InTypes = append(n.InTypes, from.OutTypes[0].Base())
		}
	}
}

func uses(names ...string) option {
	return func(s *sketch, n *graph.Node) {
		for _, name := range names {
			from := s.byName[name]
			n.Inputs = append(n.Inputs, graph.Output{Node: from})
			n.InTypes = append(n.InTypes, from.OutTypes[0])
		}
	}
}

func after(names ...string) option {
	return func(s *sketch, n *graph.Node) {
		for _, name := range names {
			n.Controls = append(n.Controls, s.byName[name])
		}
	}
}

func with(classes ...string) option {
	return func(_ *sketch, n *graph.Node) {
		l := &attrpb.AttrValue_ListValue{}
		for _, c := range classes {
			l.S = append(l.S, []byte("loc:@"+c))
		}
		n.Attrs["_class"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: l}}
	}
}

func named(container, name string) option {
	return func(_ *sketch, n *graph.Node) {
		n.Attrs["container"], n.Attrs["shared_name"] = stringAttr(container), stringAttr(name)
	}
}

func placedOn(device string) option { return func(_ *sketch, n *graph.Node) { n.Assigned = device } }

func makes(t ...tensor.DType) option { return func(_ *sketch, n *graph.Node) { n.OutTypes = t } }

const (
	ps0    = "/job:ps/replica:0/task:0/device:CPU:0"
	ps1    = "/job:ps/replica:0/task:1/device:CPU:0"
	w0     = "/job:worker/replica:0/task:0/device:CPU:0"
	w1     = "/job:worker/replica:0/task:1/device:CPU:0"
	w1gpu0 = "/job:worker/replica:0/task:1/device:GPU:0"
	w1gpu1 = "/job:worker/replica:0/task:1/device:GPU:1"
)

// devicesOf returns devices; those of /job:worker/task:0 are the master's own.
func devicesOf(t testing.TB, names ...string) []Device {
	t.Helper()
	var out []Device
	for _, name := range names {
		s, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewDevice(name, s.Job == "worker" && s.Task == 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

// supports is a kernel table in which all ops but NoKernel have CPU kernels, and some GPU ones.
func supports(n *graph.Node, deviceType string) bool {
	switch n.Op {
	case "NoKernel":
		return false
	case "Add", "VariableV2", "VarHandleOp", "Assign", "Read", "Const", "Identity":
		return true
	case "OnlyGPU":
		return deviceType == "GPU"
	}
	return deviceType == "CPU"
}

// check compares an error with the expected one: "" means no error, otherwise want is the whole message.
func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatalf("unexpected error: %v", err)
	case want == "":
	case err == nil:
		t.Fatalf("no error, want %q", want)
	case err.Error() != want:
		t.Fatalf("got  %q\nwant %q", err.Error(), want)
	case status.CodeOf(err) != status.InvalidArgument:
		t.Fatalf("code %v, want INVALID_ARGUMENT", status.CodeOf(err))
	}
}
