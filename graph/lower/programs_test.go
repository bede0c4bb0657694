package lower_test

import (
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
)

// A node calls functions of the program if its op does, or a function that runs on its device: its op, one in an attribute, or one that these
// call in turn.
func TestPrograms(t *testing.T) {
	pyFunc := `node_def { name: "p" op: "PyFunc" input: "x" attr { key: "token" value { s: "f" } } attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }
`
	typed := func(types string) string {
		return `attr { key: "Targuments" value { list { } } } attr { key: "output_types" value { list { type: DT_FLOAT } } } attr { key: "output_shapes" value { list { shape { } } } } ` + types
	}
	dataset := func(name, op, input, attrs string) string {
		return `node { name: "` + name + `" op: "` + op + `" input: "` + input + `" ` + typed(attrs) + ` }
`
	}
	text := unary("calls", "p:output:0", pyFunc) +
		unary("callsAgain", "c:output:0", calling("node_def", "c", "calls", "x")) +
		unary("named", "c:y:0", `node_def { name: "c" op: "calls" input: "x" }`) +
		unary("adds", "a:y:0", op("node_def", "a", "Neg", "", "x")) +
		unary("around", "c:output:0", calling("node_def", "c", "around", "x")) +
		placeholder("in", "DT_FLOAT") + placeholder("data", "DT_VARIANT") +
		`node { name: "self" op: "PyFuncStateless" input: "in" attr { key: "token" value { s: "f" } } attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }
` +
		calling("node", "call", "calls", "in") + calling("node", "deep", "callsAgain", "in") + calling("node", "byName", "named", "in") +
		`node { name: "op" op: "named" input: "in" }
` +
		calling("node", "pure", "adds", "in") + calling("node", "circle", "around", "in") +
		dataset("map", "MapDataset", "data", function("f", "callsAgain")) + dataset("pureMap", "MapDataset", "data", function("f", "adds"))
	g := build(t, text)
	p := lower.NewPrograms(g.Library, func(op string) bool { return slices.Contains([]string{"PyFunc", "PyFuncStateless"}, op) }, nil)
	var got []string
	for _, n := range g.Nodes {
		calls, err := p.Calls(n)
		if err != nil {
			t.Fatal(err)
		}
		if calls {
			got = append(got, n.Name)
		}
	}
	slices.Sort(got)
	if want := []string{"byName", "call", "deep", "map", "op", "self"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// After the functions' nodes have replaced a call, these call.
	lowered, err := run(t, unary("both", "n:y:0", pyFunc+op("node_def", "n", "Neg", there, "p:output:0"))+placeholder("in", "DT_FLOAT")+calling("node", "call", "both", "in"), here, there)
	if err != nil {
		t.Fatal(err)
	}
	p = lower.NewPrograms(lowered.Library, func(op string) bool { return op == "PyFunc" }, nil)
	got = nil
	for _, n := range lowered.Nodes {
		if calls, err := p.Calls(n); err != nil || calls {
			got = append(got, n.Name+" "+n.Op)
		}
	}
	if want := []string{"call/p PyFunc"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if calls, err := lower.NewPrograms(nil, func(string) bool { return false }, nil).Calls(&graph.Node{Op: "calls"}); calls || err != nil {
		t.Errorf("without a library: %v %v", calls, err)
	}
}
