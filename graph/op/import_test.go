package op

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// load reads a GraphDef made by TensorFlow's Python client.
func load(t testing.TB, file string) *graphpb.GraphDef {
	t.Helper()
	data, err := os.ReadFile("../testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	def := &graphpb.GraphDef{}
	if err := proto.Unmarshal(data, def); err != nil {
		t.Fatal(err)
	}
	return def
}

// TestImportedGraphs: a graph built in Python is exported as it was imported, at the root and under a prefix.
func TestImportedGraphs(t *testing.T) {
	for _, file := range []string{"training.pb", "functions.pb"} {
		def := load(t, file)
		s := NewScope()
		if _, err := Import(s, def, nil); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		again, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		built, err := graph.Build(def)
		if err != nil {
			t.Fatal(err)
		}
		if !built.Contains(again) || len(again.Node) != len(def.Node) || again.Versions.Producer != min(def.Versions.Producer, producer) {
			t.Errorf("%s: the graph changed", file)
		}
		under, err := Import(s.SubScope("copy"), def, nil)
		if err != nil {
			t.Fatal(err)
		}
		both, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := graph.Build(both); err != nil {
			t.Errorf("%s: twice in a graph: %v", file, err)
		}
		for i, o := range under.Operations() {
			if name := def.Node[i].Name; o.Name() != "copy/"+name || under.Operation(name) != o || s.Operation(o.Name()) != o {
				t.Errorf("%s became %s", name, o.Name())
			}
		}
		if _, err := Import(s, def, nil); status.CodeOf(err) != status.AlreadyExists {
			t.Errorf("%s: the same names again: %v", file, err)
		}
	}
}

const linear = `
	node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { dim { size: 2 } dim { size: 3 } } } } }
	node { name: "w" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } device: "/device:CPU:0" }
	node { name: "y" op: "MatMul" input: "x" input: "w:0" attr { key: "T" value { type: DT_FLOAT } } attr { key: "_class" value { list { s: "loc:@w" s: "loc:@away" } } } }
	node { name: "parts" op: "Split" input: "axis" input: "y" attr { key: "num_split" value { i: 2 } } attr { key: "T" value { type: DT_FLOAT } } }
	node { name: "axis" op: "Const" input: "^w" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 0 } } } }
	versions { producer: 1000 }`

func text(t testing.TB, s string) *graphpb.GraphDef {
	t.Helper()
	def := &graphpb.GraphDef{}
	if err := prototext.Unmarshal([]byte(s), def); err != nil {
		t.Fatal(err)
	}
	return def
}

// TestImportInto: tensors of the graph replace those of the imported one; the rest follows the scope.
func TestImportInto(t *testing.T) {
	s := NewScope().WithDevice("/job:ps")
	first := Placeholder(s.WithName("first"), tensor.Float32, attr.Shape(shape.Of(4, 3)))
	in := s.SubScope("model").WithControlDependencies(first.Op).WithDevice("/device:CPU:1")
	im, err := Import(in, text(t, linear), map[string]Output{"x": first})
	if err != nil {
		t.Fatal(err)
	}
	last := Relu(s, im.Output("parts:1"))
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := graph.Build(def); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]*nodepb.NodeDef{}
	for _, n := range def.Node {
		nodes[n.Name] = n
	}
	y := nodes["model/y"]
	for _, c := range []struct{ got, want string }{
		{strings.Join(y.Input, " "), "first model/w"},
		{strings.Join(nodes["model/axis"].Input, " "), "^model/w ^first"},
		{strings.Join(nodes["model/w"].Input, " "), "^first"},
		{string(y.Attr["_class"].GetList().S[0]) + " " + string(y.Attr["_class"].GetList().S[1]), "loc:@model/w loc:@away"},
		{y.Device, "/job:ps/device:CPU:1"}, {nodes["model/w"].Device, "/job:ps/device:CPU:0"},
		{last.Op.Inputs()[0].Name(), "model/parts:1"},
		{s.SubScope("model").prefix, "model_1/"}, {s.WithName("model/y").named("").opName, "model/y_1"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	if parts := im.Operation("parts"); len(parts.OutputList(0)) != 2 || len(parts.Input(1)) != 1 || def.Versions.Producer != 1000 {
		t.Errorf("%d outputs, producer %d", len(parts.OutputList(0)), def.Versions.Producer)
	}
	im.Output("parts:2")
	checkError(t, s, "has no tensor parts:2", "import_test.go:")
}

// TestImportMistakes: a failed import does not change the graph.
func TestImportMistakes(t *testing.T) {
	for want, c := range map[string]struct {
		def    string
		inputs func(s *Scope) map[string]Output
	}{
		"no tensor z":           {linear, func(s *Scope) map[string]Output { return map[string]Output{"z": Placeholder(s, tensor.Float32)} }},
		"no tensor x:1":         {linear, func(s *Scope) map[string]Output { return map[string]Output{"x:1": Placeholder(s, tensor.Float32)} }},
		"is of type int32, not": {linear, func(s *Scope) map[string]Output { return map[string]Output{"x": Placeholder(s, tensor.Int32)} }},
		"was never added":       {linear, func(s *Scope) map[string]Output { return map[string]Output{"x": {}} }},
		"of another graph": {linear, func(s *Scope) map[string]Output {
			return map[string]Output{"x": Placeholder(NewScope(), tensor.Float32)}
		}},
		"not of the form":         {linear, func(s *Scope) map[string]Output { return map[string]Output{"^x": Placeholder(s, tensor.Float32)} }},
		"Op type not registered":  {`node { name: "x" op: "No" }`, nil},
		"has an operation Placeh": {`node { name: "Placeholder" op: "NoOp" }`, func(s *Scope) map[string]Output { Placeholder(s, tensor.Int32); return nil }},
	} {
		s := NewScope()
		var inputs map[string]Output
		if c.inputs != nil {
			inputs = c.inputs(s)
		}
		before := len(s.Operations())
		if _, err := Import(s, text(t, c.def), inputs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		if s.Err() != nil || len(s.Operations()) != before {
			t.Errorf("%s: the graph changed", want)
		}
	}
}

// FuzzImport imports arbitrary graphs and checks that a master accepts the result.
func FuzzImport(f *testing.F) {
	for _, file := range []string{"training.pb", "functions.pb"} {
		def, err := proto.Marshal(load(f, file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(def)
	}
	small, err := proto.Marshal(text(f, linear))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Fuzz(func(t *testing.T, data []byte) {
		def := &graphpb.GraphDef{}
		if proto.Unmarshal(data, def) != nil {
			return
		}
		s := NewScope()
		im, err := Import(s.SubScope("in"), def, nil)
		if err != nil {
			if len(s.Operations()) > 0 {
				t.Error("an error left operations behind")
			}
			return
		}
		for _, name := range slices.Collect(maps.Keys(im.names)) {
			im.Output(name)
		}
		if len(im.ops) == 0 || s.Err() != nil {
			return
		}
		out, err := s.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := graph.Build(out); err != nil {
			t.Error(err)
		}
	})
}
