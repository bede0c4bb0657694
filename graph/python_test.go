package graph

import (
	"os"
	"strings"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"google.golang.org/protobuf/proto"
)

// load reads a GraphDef made by TensorFlow's Python client.
func load(t testing.TB, file string) *graphpb.GraphDef {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	def := &graphpb.GraphDef{}
	if err := proto.Unmarshal(data, def); err != nil {
		t.Fatal(err)
	}
	return def
}

// TestPythonGraphs takes real graphs through every pass.
func TestPythonGraphs(t *testing.T) {
	for _, file := range []string{"training.pb", "functions.pb"} {
		t.Run(file, func(t *testing.T) {
			def := load(t, file)
			before := proto.CloneOf(def)
			g, err := Build(def)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(def, before) {
				t.Error("Build changed the client's message")
			}
			if len(g.Nodes) != len(def.Node) || g.Producer != def.Versions.Producer {
				t.Errorf("%d nodes, producer %d; want %d and %d", len(g.Nodes), g.Producer, len(def.Node), def.Versions.Producer)
			}
			if !g.Contains(def) {
				t.Error("the graph does not contain what it was built from")
			}
			back := g.Def()
			back.Library = g.Library.For(g).Proto()
			again, err := Rebuild(back)
			if err != nil {
				t.Fatal(err)
			}
			for i, n := range g.Nodes {
				m := again.Nodes[i]
				if !equalNodes(n.Proto(), m.Proto()) || len(n.InTypes) != len(m.InTypes) || len(n.OutTypes) != len(m.OutTypes) {
					t.Errorf("%v came back as %v", n.Proto(), m.Proto())
				}
			}
			pruneEach(t, g)
		})
	}
}

// pruneEach prunes to each output and each node of g, and rebuilds what a worker would receive.
func pruneEach(t *testing.T, g *Graph) {
	for _, n := range g.Nodes {
		sig := Signature{Targets: []string{n.Name}}
		if len(n.OutTypes) > 0 && len(n.Inputs) > 0 {
			sig = Signature{Feeds: []string{n.Inputs[0].Node.Name + ":0"}, Fetches: []string{n.Name + ":0"}}
		}
		p, err := Prune(g, sig, "/job:worker/replica:0/task:0/device:CPU:0")
		if err != nil {
			if !strings.Contains(err.Error(), "_ref") {
				t.Errorf("%v: %v", sig, err)
			}
			continue
		}
		def := p.Def()
		def.Library = p.Library.For(p.Graph).Proto()
		if _, err := Rebuild(def); err != nil {
			t.Errorf("%v: %v", sig, err)
		}
	}
}

// TestPythonFunctions instantiates the functions that the nodes of a real graph call.
func TestPythonFunctions(t *testing.T) {
	g, err := Build(load(t, "functions.pb"))
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Library.Functions) < 10 {
		t.Fatalf("only %d functions", len(g.Library.Functions))
	}
	for name, f := range g.Library.Functions {
		fg, err := g.Library.Instantiate(name, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(fg.Args) != len(f.Signature.InputArg) || len(fg.Rets) != len(f.Signature.OutputArg) || len(fg.ControlRets) > len(f.ControlRet) {
			t.Errorf("%s: %d arguments, %d results, %d control results; want those of %v", name, len(fg.Args), len(fg.Rets), len(fg.ControlRets), f.Signature)
		}
		for i, n := range fg.Args {
			if n.Op != "_Arg" || n.Attrs["index"].GetI() != int64(i) || fg.Nodes[n.ID] != n {
				t.Errorf("%s: argument %d is %v", name, i, n.Proto())
			}
		}
		for i, n := range fg.Rets {
			if n.Op != "_Retval" || n.Attrs["index"].GetI() != int64(i) || fg.Nodes[n.ID] != n {
				t.Errorf("%s: result %d is %v", name, i, n.Proto())
			}
		}
	}
}
