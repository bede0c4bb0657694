package graph

import (
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

// maxFuzzed bounds the size of the messages tried: time and memory grow with it.
const maxFuzzed = 64 << 10

// FuzzBuild takes any bytes that decode to a GraphDef through every pass. No pass may panic or return an error without a code, and a graph
// must survive the trip to a worker.
func FuzzBuild(f *testing.F) {
	for _, text := range []string{
		"a = Placeholder[dtype=float]\nb = Identity[T=float](a:0)\nc = NoOp(^b, ^a)",
		"w = VariableV2[dtype=float; shape=shape(2,-1)] @/job:ps/task:0\nx = Assign[T=float](w, w)",
		"i = Placeholder[dtype=int32]\ns = Split[T=int32; num_split=3](i, i)\np = Pack[N=3; T=int32](s:2, s:1, s)",
		"n = NextIteration[T=float](m)\nm = Merge[T=float; N=2](n, e)\ne = Enter[T=float; frame_name=\"f\"](a)\na = Placeholder[dtype=float]",
		"x = NoOp(^y)\ny = NoOp(^x)",
		"q = FIFOQueueV2[component_types=[float,int32]]\nd = QueueDequeueV2[component_types=[float,int32]](q)\nl = IdentityN[T=[float,int32]](d, d:1)",
		"a = StatefulPartitionedCall[Tin=[]; Tout=[float]; f=&g; config=$c]",
	} {
		data, err := proto.Marshal(parseGraph(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	withLibrary := parseGraph(f, "x = Placeholder[dtype=float]\ny = twice[T=float; N=2](x)")
	withLibrary.Library = parseLibrary(f, `
		function {
		  signature {
		    name: "twice"
		    input_arg { name: "x" type_attr: "T" }
		    output_arg { name: "y" type_attr: "T" number_attr: "N" }
		    attr { name: "T" type: "type" default_value { type: DT_FLOAT } }
		    attr { name: "N" type: "int" has_minimum: true minimum: 0 default_value { i: 2 } }
		    control_output: "c"
		  }
		  node_def { name: "axis" op: "Const" input: "^x" attr { key: "dtype" value { type: DT_INT32 } } attr { key: "value" value { tensor { dtype: DT_INT32 } } } }
		  node_def { name: "n" op: "Split" input: "axis:output" input: "x" attr { key: "num_split" value { placeholder: "N" } } attr { key: "T" value { placeholder: "T" } } }
		  ret { key: "y" value: "n:output" }
		  control_ret { key: "c" value: "axis" }
		}
		gradient { function_name: "twice" gradient_func: "twice" }`)
	data, err := proto.Marshal(withLibrary)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		def := &graphpb.GraphDef{}
		if len(data) > maxFuzzed || proto.Unmarshal(data, def) != nil {
			t.Skip()
		}
		g, err := Build(def)
		if err != nil {
			checkCode(t, err)
			return
		}
		if !g.Contains(def) {
			t.Error("the graph does not contain what it was built from")
		}
		if _, err := g.Extend(def); err == nil && len(def.Node) > 0 {
			t.Error("the same nodes were added twice")
		}
		back := g.Def()
		back.Library = g.Library.For(g).Proto()
		if _, err := Rebuild(back); err != nil {
			t.Errorf("does not build again: %v", err)
		}
		for name := range g.Library.Functions {
			if _, err := g.Library.Instantiate(name, nil); err != nil {
				checkCode(t, err)
			}
		}
		if len(g.Nodes) > 0 {
			fuzzPrune(t, g)
		}
	})
}

// fuzzPrune prunes to the last node, also with the first one fed.
func fuzzPrune(t *testing.T, g *Graph) {
	first, last := g.Nodes[0].Name, g.Nodes[len(g.Nodes)-1].Name
	for _, sig := range []Signature{{Targets: []string{last}}, {Fetches: []string{last}}, {Feeds: []string{first}, Fetches: []string{last}}} {
		p, err := Prune(g, sig, "/job:a/replica:0/task:0/device:CPU:0")
		if err != nil {
			checkCode(t, err)
			continue
		}
		for i := range p.Fetches {
			p.FeedsOf(i)
		}
		def := p.Def()
		def.Library = g.Library.Proto()
		if _, err := Rebuild(def); err != nil {
			t.Errorf("%v does not build again: %v", sig, err)
		}
	}
}

func checkCode(t *testing.T, err error) {
	t.Helper()
	switch status.CodeOf(err) {
	case status.InvalidArgument, status.NotFound, status.Unimplemented:
	default:
		t.Errorf("%v: %v", status.CodeOf(err), err)
	}
}
