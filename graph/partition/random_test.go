package partition

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
)

// maker makes random graphs as TensorFlow's client would: expressions, conds and while loops, nested in each other, on random devices.
type maker struct {
	rng     *rand.Rand
	devices int
	gpus    bool // every other device is a GPU
	budget  int  // of expressions
	nodes   []*graph.Node
	vars    []*variable
}

// variable is accessed in a fixed order; last is the latest access.
type variable struct {
	node *graph.Node
	last *graph.Node
}

// scope is the body of a loop, a branch of a cond, or the top level: values computed there may be used there.
type scope struct {
	values []graph.Output
	nodes  []*graph.Node
	pivot  *graph.Node // the control input of nodes without inputs
	depth  int
	home   int // the device of most of its nodes
	// condition is set for the part of a loop that decides whether there is another iteration.
	condition bool
}

// inner returns a scope within s.
func (k *maker) inner(s *scope) *scope {
	return &scope{depth: s.depth + 1, home: k.rng.IntN(k.devices)}
}

// device returns the name of device i.
func (k *maker) device(i int) string {
	if k.gpus && i%2 == 1 {
		return longName(fmt.Sprintf("w%dg%d", i/4, i/2%2))
	}
	return longName(fmt.Sprintf("w%d", i))
}

func (k *maker) node(s *scope, op string, outs []tensor.DType, in ...graph.Output) *graph.Node {
	n := &graph.Node{
		Name: fmt.Sprintf("%s%d", strings.ToLower(op), len(k.nodes)), Op: op, Attrs: graph.Attrs{}, Inputs: in, OutTypes: outs,
		Assigned: k.device(s.home),
	}
	if k.rng.IntN(3) == 0 {
		n.Assigned = k.device(k.rng.IntN(k.devices))
	}
	for _, i := range in {
		n.InTypes = append(n.InTypes, i.Node.OutTypes[i.Index].Base())
	}
	// As in TensorFlow's client: without the pivot, a node whose inputs are all invariants would run once more than the loop's body.
	invariant := func(o graph.Output) bool { return KindOf(o.Node.Op) == Enter && constantEnter(o.Node) }
	if s.pivot != nil && !slices.ContainsFunc(in, func(o graph.Output) bool { return !invariant(o) }) && (len(in) == 0 || !s.condition) {
		n.Controls = append(n.Controls, s.pivot)
	}
	if len(s.nodes) > 0 && op != "NextIteration" {
		for k.rng.IntN(6) == 0 {
			n.Controls = append(n.Controls, pick(k.rng, s.nodes))
		}
	}
	k.nodes = append(k.nodes, n)
	return n
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

var (
	intOut  = []tensor.DType{tensor.Int64}
	boolOut = []tensor.DType{tensor.Bool}
	twoInts = []tensor.DType{tensor.Int64, tensor.Int64}
)

// value adds a node that yields an int for use in s.
func (k *maker) value(s *scope, op string, in ...graph.Output) graph.Output {
	n := k.node(s, op, intOut, in...)
	s.nodes = append(s.nodes, n)
	s.values = append(s.values, graph.Output{Node: n})
	return graph.Output{Node: n}
}

func (k *maker) constant(s *scope, v int) graph.Output {
	out := k.value(s, "Const")
	out.Node.Attrs["n"] = intAttr(int64(v))
	return out
}

func (k *maker) any(s *scope) graph.Output {
	if len(s.values) == 0 {
		return k.constant(s, k.rng.IntN(100))
	}
	return pick(k.rng, s.values)
}

func (k *maker) statement(s *scope) {
	if k.budget--; k.budget < 0 {
		return
	}
	switch c := k.rng.IntN(12); {
	case c == 0:
		k.constant(s, k.rng.IntN(100))
	case c < 4:
		k.value(s, "AddN", k.any(s), k.any(s), k.any(s))
	case c == 4:
		k.value(s, "Mul", k.any(s), k.any(s))
	case c == 5:
		n := k.node(s, "Unpack", twoInts, k.any(s))
		s.nodes = append(s.nodes, n)
		s.values = append(s.values, graph.Output{Node: n, Index: 1}, graph.Output{Node: n})
	case c == 6:
		n := k.node(s, "NoOp", nil)
		for range k.rng.IntN(5) {
			if len(s.nodes) > 0 {
				n.Controls = append(n.Controls, pick(k.rng, s.nodes))
			}
		}
		s.nodes = append(s.nodes, n)
	case c == 7 && s.pivot == nil:
		k.access(s)
	case c < 10 && s.depth < 3:
		k.while(s)
	case s.depth < 3:
		k.cond(s)
	}
}

// access reads or writes a variable, after its previous access.
func (k *maker) access(s *scope) {
	if len(k.vars) == 0 || k.rng.IntN(4) == 0 {
		v := k.node(s, "VariableV2", []tensor.DType{tensor.Int64.Ref()})
		k.vars = append(k.vars, &variable{v, v})
	}
	v := pick(k.rng, k.vars)
	ref := graph.Output{Node: v.node}
	var n *graph.Node
	switch k.rng.IntN(3) {
	case 0:
		n = k.node(s, "AssignAdd", []tensor.DType{tensor.Int64.Ref()}, ref, k.any(s))
		n.InTypes[0], n.Assigned = tensor.Int64.Ref(), v.node.Assigned
		s.nodes = append(s.nodes, n)
	case 1:
		n = k.value(s, "AddN", k.any(s), ref, k.any(s), ref).Node
	default:
		n = k.value(s, "Identity", ref).Node
	}
	n.Controls = append(n.Controls, v.last)
	v.last = n
}

func (k *maker) less(s *scope, a, b graph.Output) graph.Output {
	n := k.node(s, "Less", boolOut, a, b)
	s.nodes = append(s.nodes, n)
	return graph.Output{Node: n}
}

func (k *maker) cond(s *scope) {
	pred := k.less(s, k.any(s), k.any(s))
	branches := [2]*scope{}
	inner := make([]graph.Output, 1+k.rng.IntN(3))
	for i := range inner {
		sw := k.node(s, "Switch", twoInts, k.any(s), pred)
		if k.rng.IntN(3) == 0 {
			s.nodes = append(s.nodes, sw)
		}
		inner[i] = graph.Output{Node: sw}
	}
	var results [2]graph.Output
	for b := range branches {
		br := k.inner(s)
		for _, v := range inner {
			br.values = append(br.values, graph.Output{Node: v.Node, Index: b})
		}
		br.pivot = k.value(br, "Identity", br.values[0]).Node
		for range k.rng.IntN(4) {
			k.statement(br)
		}
		branches[b], results[b] = br, k.any(br)
	}
	merge := k.node(s, "Merge", []tensor.DType{tensor.Int64, tensor.Int32}, results[0], results[1])
	s.nodes = append(s.nodes, merge)
	s.values = append(s.values, graph.Output{Node: merge})
	if k.rng.IntN(2) == 0 {
		trigger := k.node(s, "ControlTrigger", nil)
		trigger.Controls = append(trigger.Controls, pick(k.rng, branches[0].nodes), pick(k.rng, branches[1].nodes))
		s.nodes = append(s.nodes, trigger)
	}
}

// while adds a loop with a counter.
func (k *maker) while(s *scope) {
	frame, parallel := fmt.Sprintf("while%d", len(k.nodes)), int64(1+k.rng.IntN(3))
	enter := func(v graph.Output, constant bool) graph.Output {
		e := k.node(s, "Enter", intOut, v)
		e.Attrs["frame_name"], e.Attrs["parallel_iterations"], e.Attrs["is_constant"] = stringAttr(frame), intAttr(parallel), boolAttr(constant)
		return graph.Output{Node: e}
	}
	limit := enter(k.constant(s, k.rng.IntN(5)), true)
	var invariants []graph.Output
	for range k.rng.IntN(3) {
		invariants = append(invariants, enter(k.any(s), true))
	}
	if s.pivot == nil && k.rng.IntN(4) == 0 {
		invariants = append(invariants, k.refEnter(s, frame))
	}
	starts := []graph.Output{enter(k.constant(s, 0), false)}
	for range k.rng.IntN(3) {
		starts = append(starts, enter(k.any(s), false))
	}
	var merges []*graph.Node
	in := k.inner(s)
	in.condition = true
	for _, e := range starts {
		if s.depth == 0 && k.rng.IntN(4) == 0 {
			// Runs only in the first iteration. (Where the loop may be dead, the Merge needs the Enter itself.)
			e = graph.Output{Node: k.node(&scope{home: in.home}, "Identity", intOut, e)}
		}
		merge := k.node(&scope{home: in.home}, "Merge", []tensor.DType{tensor.Int64, tensor.Int32}, e, e)
		merges = append(merges, merge)
		in.nodes = append(in.nodes, merge)
		in.values = append(in.values, graph.Output{Node: merge})
	}
	in.pivot = merges[0]
	in.values = append(in.values, invariants...)
	for range k.rng.IntN(2) {
		k.statement(in)
	}
	cond := k.node(in, "LoopCond", boolOut, k.less(in, graph.Output{Node: merges[0]}, limit))
	body := k.inner(s)
	body.values = slices.Clone(invariants)
	for _, m := range merges {
		sw := k.node(in, "Switch", twoInts, graph.Output{Node: m}, graph.Output{Node: cond})
		body.values = append(body.values, graph.Output{Node: sw, Index: 1})
		exit := k.node(&scope{home: in.home}, "Exit", intOut, graph.Output{Node: sw})
		s.nodes = append(s.nodes, exit)
		s.values = append(s.values, graph.Output{Node: exit})
	}
	counter := body.values[len(invariants)]
	body.pivot = k.value(body, "Identity", counter).Node
	for range k.rng.IntN(6) {
		k.statement(body)
	}
	results := []graph.Output{k.value(body, "AddN", counter, k.constant(body, 1))}
	for range merges[1:] {
		// A value that depends on the pivot, so that it is dead when the loop ends.
		results = append(results, k.value(body, "AddN", k.any(body), counter))
	}
	for i, m := range merges {
		m.Inputs[1] = graph.Output{Node: k.node(body, "NextIteration", intOut, results[i])}
		if i > 0 && k.rng.IntN(8) == 0 {
			m.Inputs[1] = merges[0].Inputs[1] // one NextIteration for two variables
		}
	}
}

// refEnter adds a variable that no longer changes, as an invariant of a loop.
func (k *maker) refEnter(s *scope, frame string) graph.Output {
	refOut := []tensor.DType{tensor.Int64.Ref()}
	v := k.node(s, "VariableV2", refOut)
	set := k.node(s, "AssignAdd", refOut, graph.Output{Node: v}, k.any(s))
	e := k.node(s, "RefEnter", refOut, graph.Output{Node: set})
	set.InTypes[0], e.InTypes[0] = refOut[0], refOut[0]
	set.Assigned, e.Assigned = v.Assigned, v.Assigned
	e.Attrs["frame_name"], e.Attrs["parallel_iterations"], e.Attrs["is_constant"] = stringAttr(frame), intAttr(10), boolAttr(true)
	return graph.Output{Node: e}
}

func randomGraph(rng *rand.Rand, devices int, gpus bool) *graph.Graph {
	k := &maker{rng: rng, devices: devices, gpus: gpus, budget: 4 + rng.IntN(40)}
	top := &scope{}
	k.constant(top, 7)
	for k.budget > 0 {
		k.statement(top)
	}
	rng.Shuffle(len(k.nodes), func(i, j int) { k.nodes[i], k.nodes[j] = k.nodes[j], k.nodes[i] })
	return graph.New(k.nodes, nil, 0)
}

// TestRandomGraphs checks that every node of the user's graph runs in the same iterations, with the same results, in the parts as in the
// whole, and that everything sent is received.
func TestRandomGraphs(t *testing.T) {
	n := uint64(1500)
	if !extent.Check() {
		n = 300
	}
	executions, nodes := 0, 0
	for seed := range n {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := randomGraph(rng, 1+rng.IntN(5), seed%3 != 0)
		nodes += len(g.Nodes)
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			before := formatWhole(g)
			parts, err := Split(g, Options{Narrow: seed%2 == 1, MemoryTypes: memoryTypes})
			if err != nil {
				t.Fatal(err)
			}
			if formatWhole(g) != before {
				t.Error("Split changed the graph that it cut")
			}
			checkParts(t, parts)
			executions += compareRuns(t, rng, g, parts)
		})
		if !ok {
			t.Fatalf("seed %d: the graph is\n%s", seed, formatWhole(g))
		}
	}
	t.Logf("%d nodes, %d executions", nodes, executions)
}

// compareRuns runs a graph and its parts, compares what the nodes did, and returns the number of executions.
func compareRuns(t *testing.T, rng *rand.Rand, g *graph.Graph, parts *Parts) int {
	whole := newMachine(t, rng, g)
	whole.run()
	var graphs []*graph.Graph
	for _, d := range parts.Devices {
		graphs = append(graphs, parts.ByDevice[d])
	}
	split := newMachine(t, rng, graphs...)
	split.run()
	if !maps.Equal(whole.ran, split.ran) {
		t.Error(difference(whole.ran, split.ran))
	}
	for name, v := range whole.vars {
		if split.vars[name] == nil || *split.vars[name] != *v {
			t.Errorf("the variable %s differs in the end", name)
		}
	}
	return len(whole.ran)
}

func formatWhole(g *graph.Graph) string {
	var b strings.Builder
	formatGraph(g, &b)
	for _, n := range g.Nodes {
		b.WriteString(n.Assigned + " ")
	}
	return shorten(b.String())
}

func difference(whole, split map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(whole)) {
		if got, ran := split[k]; !ran {
			fmt.Fprintf(&b, "%s did not run in the parts\n", k)
		} else if got != whole[k] {
			fmt.Fprintf(&b, "%s: %s in the parts, %s in the whole\n", k, got, whole[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(split)) {
		if _, ran := whole[k]; !ran {
			fmt.Fprintf(&b, "%s ran in the parts alone\n", k)
		}
	}
	return b.String()
}
