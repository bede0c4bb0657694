package actors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// randomNode is a node of a random graph: an op and the nodes that it reads, by number. Node 0 is the graph's input.
type randomNode struct {
	op     string
	output string // the name of the op's output
	inputs []int
}

// randomGraph returns a graph of that many nodes beside the input.
func randomGraph(r *rand.Rand, size int) []randomNode {
	ops := []struct {
		name, output string
		inputs       int
	}{
		{"AddV2", "z", 2}, {"Sub", "z", 2}, {"Mul", "z", 2}, {"Maximum", "z", 2}, {"Minimum", "z", 2}, {"Neg", "y", 1}, {"Square", "y", 1}, {"Abs", "y", 1}, {"Identity", "output", 1},
	}
	all := make([]randomNode, 1, size+1)
	for len(all) <= size {
		o := ops[r.IntN(len(ops))]
		n := randomNode{op: o.name, output: o.output}
		for range o.inputs {
			n.inputs = append(n.inputs, r.IntN(len(all)))
		}
		all = append(all, n)
	}
	return all
}

// graphText returns the graph as that of a session.
func graphText(g []randomNode) string {
	var b strings.Builder
	b.WriteString("n0 = Placeholder()\n")
	for i, n := range g[1:] {
		var inputs []string
		for _, in := range n.inputs {
			inputs = append(inputs, fmt.Sprint("n", in))
		}
		fmt.Fprintf(&b, "n%d = %s(%s)\n", i+1, n.op, strings.Join(inputs, ", "))
	}
	return b.String()
}

// functionText returns the graph as a function that returns all nodes.
func functionText(name string, g []randomNode) string {
	var outputs, nodes, rets strings.Builder
	ref := func(i int) string {
		if i == 0 {
			return "x"
		}
		return fmt.Sprintf("n%d:%s:0", i, g[i].output)
	}
	for i, n := range g[1:] {
		i++
		fmt.Fprintf(&outputs, "output_arg { name: \"y%d\" type: DT_INT64 } ", i)
		fmt.Fprintf(&nodes, "node_def { name: \"n%d\" op: %q ", i, n.op)
		for _, in := range n.inputs {
			fmt.Fprintf(&nodes, "input: %q ", ref(in))
		}
		nodes.WriteString("attr { key: \"T\" value { type: DT_INT64 } } }\n")
		fmt.Fprintf(&rets, "ret { key: \"y%d\" value: %q }\n", i, ref(i))
	}
	return fmt.Sprintf("signature { name: %q input_arg { name: \"x\" type: DT_INT64 } %s}\n%s%s", name, outputs.String(), nodes.String(), rets.String())
}

// A random graph gives the same results as a session's graph, as ops one by one, and as a function.
func TestEagerLikeSessions(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	for seed := range uint64(30) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 1)), 12)
		x := kernelstest.I64(kernelstest.S(3), int64(seed)-9, 2, -3)
		var fetches []string
		for i := range g[1:] {
			fetches = append(fetches, fmt.Sprintf("n%d:0", i+1))
		}
		s := open(t, n, graphText(g))
		r, err := s.session.Run(t.Context(), &StepRequest{Feeds: []Feed{{"n0:0", x}}, Fetches: fetches})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, graphText(g))
		}
		c.sendTensor(0, x)
		for i, n := range g[1:] {
			var inputs []string
			for _, in := range n.inputs {
				inputs = append(inputs, fmt.Sprintf("%d:0", in))
			}
			c.run(op(int64(i+1), n.op, "", inputs...))
		}
		name := fmt.Sprint("random_", seed)
		c.register(functionText(name, g))
		c.run(call(100, name, "0:0"))
		for i := range g[1:] {
			want := slices.Clone(tensor.Of[int64](r.Tensors[i]))
			for _, h := range []string{fmt.Sprintf("%d:0", i+1), fmt.Sprintf("100:%d", i)} {
				v, _ := c.handles.get(keyOf(handle(h)))
				if got := tensor.Of[int64](v); !slices.Equal(got, want) {
					t.Errorf("seed %d, handle %s: got %v, want %v\n%s", seed, h, got, want, graphText(g))
				}
				v.Release()
			}
		}
		r.Release()
		s.close()
	}
}
