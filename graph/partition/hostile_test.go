package partition

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
)

// hostileGraph wires control flow at random.
func hostileGraph(rng *rand.Rand) *graph.Graph {
	kinds := []struct {
		op      string
		in, out int
	}{{"Const", 0, 1}, {"Neg", 1, 1}, {"Add", 2, 1}, {"Switch", 2, 2}, {"Merge", 2, 2}, {"Enter", 1, 1}, {"RefEnter", 1, 1},
		{"Exit", 1, 1}, {"NextIteration", 1, 1}, {"LoopCond", 1, 1}, {"NoOp", 0, 0}, {"ControlTrigger", 0, 0}}
	nodes := make([]*graph.Node, 2+rng.IntN(14))
	back := rng.IntN(3) // how often an edge goes back
	ins := make([]int, len(nodes))
	for i := range nodes {
		k := pick(rng, kinds)
		n := &graph.Node{ID: i, Name: fmt.Sprintf("%s%d", k.op, i), Op: k.op, Attrs: graph.Attrs{}, Assigned: longName(fmt.Sprintf("w%d", rng.IntN(3)))}
		n.Attrs["frame_name"], n.Attrs["parallel_iterations"], n.Attrs["is_constant"] = stringAttr(fmt.Sprint("f", rng.IntN(3))), intAttr(1), boolAttr(rng.IntN(2) == 0)
		for range k.out {
			dtype := tensor.Float32
			if rng.IntN(40) == 0 {
				dtype = dtype.Ref()
			}
			n.OutTypes = append(n.OutTypes, dtype)
		}
		nodes[i], ins[i] = n, k.in
	}
	for i, n := range nodes {
		source := func() *graph.Node {
			if i == 0 || rng.IntN(20) < back {
				return pick(rng, nodes)
			}
			return nodes[rng.IntN(i)]
		}
		for range ins[i] {
			for range 10 {
				if from := source(); len(from.OutTypes) > 0 {
					o := rng.IntN(len(from.OutTypes))
					n.Inputs = append(n.Inputs, graph.Output{Node: from, Index: o})
					dtype := from.OutTypes[o].Base()
					if rng.IntN(60) == 0 {
						dtype = dtype.Ref()
					}
					n.InTypes = append(n.InTypes, dtype)
					break
				}
			}
		}
		for rng.IntN(3) == 0 {
			n.Controls = append(n.Controls, source())
		}
	}
	return graph.New(nodes, nil, 0)
}

// TestHostileGraphs: whatever the wiring, Split returns valid parts or an error that blames the client.
func TestHostileGraphs(t *testing.T) {
	n := uint64(100_000)
	if !extent.Check() {
		n = 20_000
	}
	cut := 0
	for seed := range n {
		g := hostileGraph(rand.New(rand.NewPCG(seed, 2)))
		parts, err := Split(g, Options{})
		switch {
		case err == nil:
			if len(parts.Transfers) > 0 {
				cut++
			}
			checkParts(t, parts)
		case status.CodeOf(err) != status.InvalidArgument:
			t.Errorf("error %v: %v", status.CodeOf(err), err)
		}
		if t.Failed() {
			t.Fatalf("seed %d: the graph is\n%s", seed, formatWhole(g))
		}
	}
	t.Logf("%d of %d graphs were cut", cut, n)
}

// TestMalformedNodes: graphs that cannot come from a GraphDef are rejected, too.
func TestMalformedNodes(t *testing.T) {
	fresh := func() *graph.Graph { return parseGraph(t, "a = Const() float @w0\nb = Neg(a, ^a) float @w1") }
	stranger := fresh().Nodes[0]
	for name, spoil := range map[string]func(g *graph.Graph){
		"nil node":          func(g *graph.Graph) { g.Nodes[0] = nil },
		"wrong ID":          func(g *graph.Graph) { g.Nodes[1].ID = 7 },
		"negative ID":       func(g *graph.Graph) { g.Nodes[0].ID = -1 },
		"nil input":         func(g *graph.Graph) { g.Nodes[1].Inputs[0].Node = nil },
		"input elsewhere":   func(g *graph.Graph) { g.Nodes[1].Inputs[0].Node = stranger },
		"negative index":    func(g *graph.Graph) { g.Nodes[1].Inputs[0].Index = -1 },
		"no such output":    func(g *graph.Graph) { g.Nodes[1].Inputs[0].Index = 1 },
		"no type":           func(g *graph.Graph) { g.Nodes[1].InTypes = nil },
		"nil control":       func(g *graph.Graph) { g.Nodes[1].Controls[0] = nil },
		"control elsewhere": func(g *graph.Graph) { g.Nodes[1].Controls[0] = stranger },
	} {
		t.Run(name, func(t *testing.T) {
			g := fresh()
			spoil(g)
			if _, err := Split(g, Options{}); err == nil {
				t.Error("was accepted")
			}
		})
	}
}
