package op

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func constant(s *Scope, v *tensor.Tensor) Output {
	return s.Add(Spec{Op: "Const", Attrs: map[string]any{"dtype": v.DType(), "value": v}}).Output(0)
}

func pair(t *testing.T, a, b float32) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{2}, []float32{a, b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Release)
	return v
}

func add(s *Scope, a, b Output) Output {
	return s.Add(Spec{Op: "AddV2", Inputs: []Input{a, b}}).Output(0)
}

// TestScopes: the nodes have the properties of their scopes, and a master accepts the graph.
func TestScopes(t *testing.T) {
	s := NewScope().WithDevice("/job:ps")
	x := constant(s.WithName("x"), pair(t, 1, 2))
	inner := s.SubScope("layer").WithDevice("/task:1").WithControlDependencies(x.Op).ColocateWith(x.Op)
	y := add(inner, x, x)
	z := add(inner.WithName("addv2"), y, x) // names differ by more than case
	again := add(s.SubScope("layer"), z, z)
	list := s.Add(Spec{Op: "AddN", Inputs: []Input{List{x, y, z}}})
	queue := s.WithContainer("box").Add(Spec{Op: "FIFOQueueV2", Attrs: map[string]any{"component_types": []tensor.DType{tensor.Float32}}})
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := graph.Build(def); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ got, want string }{
		{x.Name(), "x:0"}, {y.Name(), "layer/AddV2:0"}, {z.Name(), "layer/addv2_1:0"}, {again.Name(), "layer_1/AddV2:0"},
		{y.Op.Device(), "/job:ps/task:1"}, {list.Device(), "/job:ps"},
		{strings.Join(def.Node[1].Input, " "), "x x ^x"}, {string(def.Node[1].Attr["_class"].GetList().S[0]), "loc:@x"},
		{list.Output(0).DType().String(), "float"}, {string(queue.Attrs()["container"].GetS()), "box"},
		{x.Shape().String(), "[2]"}, {queue.Output(0).Shape().String(), "[]"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// TestMistakes: the graph keeps the first error, with its line; everything after it adds nothing.
func TestMistakes(t *testing.T) {
	value := pair(t, 1, 2)
	for _, c := range []struct {
		want  string
		build func(s *Scope, x Output) Output
	}{
		{"makes its attribute 'T' DT_INT32, but argument 'x' makes it DT_FLOAT", func(s *Scope, x Output) Output {
			return add(s, x, s.Add(Spec{Op: "Const", Attrs: map[string]any{"dtype": tensor.Int32, "value": tensor.Scalar(tensor.Int32, int32(1))}}).Output(0))
		}},
		{"No such op", func(s *Scope, x Output) Output { return s.Add(Spec{Op: "No such op"}).Output(0) }},
		{"has no attribute 'colour'", func(s *Scope, x Output) Output {
			return s.Add(Spec{Op: "Relu", Inputs: []Input{x}, Attrs: map[string]any{"colour": 1}}).Output(0)
		}},
		{"of another graph", func(s *Scope, x Output) Output { return add(s, constant(NewScope(), value), x) }},
		{"has to be a reference", func(s *Scope, x Output) Output {
			return s.Add(Spec{Op: "Assign", Inputs: []Input{x, x}}).Output(0)
		}},
		{"takes 2 arguments, not 1", func(s *Scope, x Output) Output { return s.Add(Spec{Op: "AddV2", Inputs: []Input{x}}).Output(0) }},
		{"'N' of 0 must be at least minimum 1", func(s *Scope, x Output) Output { return s.Add(Spec{Op: "AddN", Inputs: []Input{List{}}}).Output(0) }},
		{"cannot be an attribute's value", func(s *Scope, x Output) Output {
			return s.Add(Spec{Op: "Placeholder", Attrs: map[string]any{"dtype": 1i}}).Output(0)
		}},
	} {
		s := NewScope()
		x := constant(s, value)
		bad := c.build(s, x)
		if bad.Op != nil || bad.Shape().HasRank() || bad.DType() != tensor.Invalid {
			t.Errorf("%s: an operation was added", c.want)
		}
		if add(s, bad, x).Op != nil {
			t.Errorf("%s: an operation was added after the mistake", c.want)
		}
		err := checkError(t, s, c.want, "scope_test.go:")
		if code := status.CodeOf(err); code != status.InvalidArgument && code != status.NotFound {
			t.Errorf("%v has code %v", err, code)
		}
	}
}

// checkError checks that a graph has the error, with a line of the file, and returns it.
func checkError(t *testing.T, s *Scope, want, file string) error {
	t.Helper()
	_, err := s.GraphDef()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	} else if !strings.Contains(err.Error(), file) {
		t.Errorf("%v does not name the line", err)
	}
	return err
}

func TestShapesMerge(t *testing.T) {
	if _, err := shape.Of(2, 3).Merge(shape.Of(2, 4)); err == nil || !strings.Contains(err.Error(), "[2,3] and [2,4]") {
		t.Errorf("error %v", err)
	}
	if s, err := shape.Of(2, -1).Merge(shape.Of(-1, 4)); err != nil || s.String() != "[2,4]" {
		t.Errorf("%v, %v", s, err)
	}
}
