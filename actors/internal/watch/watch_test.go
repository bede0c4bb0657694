package watch

import (
	"slices"
	"strings"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

const device = "/job:worker/replica:0/task:0/device:CPU:0"

// scoped returns the graph that build makes, with all nodes on the device.
func scoped(t *testing.T, build func(s *op.Scope)) *graph.Graph {
	t.Helper()
	s := op.NewScope()
	build(s)
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range def.Node {
		n.Device = device
	}
	g, err := graph.Rebuild(def)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// on returns a watch of DebugIdentity or, if given, of other ops.
func on(node string, slot int32, ops ...string) *corepb.DebugTensorWatch {
	if len(ops) == 0 {
		ops = []string{"DebugIdentity"}
	}
	return &corepb.DebugTensorWatch{NodeName: node, OutputSlot: slot, DebugOps: ops, DebugUrls: []string{"file:///" + strings.Trim(node, "*")}}
}

func insert(t *testing.T, g *graph.Graph, watches ...*corepb.DebugTensorWatch) *graph.Graph {
	t.Helper()
	with, err := Insert(g, device, Options{Watches: watches, Supports: everyKernel})
	if err != nil {
		t.Fatal(err)
	}
	return with
}

func everyKernel(*graph.Node) bool { return true }

// wants checks the inputs of a node.
func wants(t *testing.T, g *graph.Graph, node string, inputs ...string) {
	t.Helper()
	n := g.Lookup(node)
	if n == nil {
		t.Errorf("there is no node %s", node)
	} else if got := n.Proto().Input; !slices.Equal(got, inputs) {
		t.Errorf("the inputs of %s are %v, want %v", node, got, inputs)
	}
}

func TestUsersTakeTheCopy(t *testing.T) {
	g := scoped(t, func(s *op.Scope) {
		x := op.Placeholder(s.WithName("x"), tensor.Float32)
		parts := op.Split(s.WithName("parts"), op.Const(s.WithName("axis"), int32(0)), x, 2)
		op.Add(s.WithName("sum"), parts[1], parts[1])
		op.Neg(s.WithControlDependencies(parts[0].Op).WithName("last"), x)
	})
	with := insert(t, g, on("parts", -1), on("x", 0, "DebugIdentity", "DebugNumericSummary(lower_bound = -2.5; mute_if_healthy=TRUE)"))
	wants(t, with, "__copy_x_0", "x")
	wants(t, with, "__dbg_x:0_1_DebugNumericSummary", "__copy_x_0")
	wants(t, with, "parts", "axis", "__copy_x_0", "^__dbg_x:0_0_DebugIdentity", "^__dbg_x:0_1_DebugNumericSummary")
	wants(t, with, "__copy_parts_1", "parts:1")
	wants(t, with, "sum", "__copy_parts_1", "__copy_parts_1", "^__dbg_parts:1_0_DebugIdentity")
	wants(t, with, "last", "__copy_x_0", "^parts", "^__dbg_x:0_0_DebugIdentity", "^__dbg_x:0_1_DebugNumericSummary")
	a := with.Lookup("__dbg_x:0_1_DebugNumericSummary").Attrs
	if low, _ := a.Float("lower_bound"); low != -2.5 {
		t.Errorf("lower_bound is %v", low)
	}
	if mute, _ := a.Bool("mute_if_healthy"); !mute {
		t.Error("mute_if_healthy is not set")
	}
	if name, _ := a.Str("tensor_name"); name != "x:0" {
		t.Errorf("the tensor is called %s", name)
	}
	wants(t, g, "last", "x", "^parts")
}

func TestTheClosestWatchCounts(t *testing.T) {
	g := scoped(t, func(s *op.Scope) {
		x := op.Placeholder(s.WithName("x"), tensor.Float32)
		op.Split(s.WithName("parts"), op.Const(s.WithName("axis"), int32(0)), x, 3)
	})
	with := insert(t, g, on("*", -1), on("parts", -1, "DebugNanCount"), on("parts", 2, "DebugNumericSummary"), on("*", 1, "DebugNumericSummary"), on("x", 0), on("x", 0, "DebugNanCount"))
	for _, want := range []string{"__dbg_axis:0_0_DebugIdentity", "__dbg_parts:0_0_DebugNanCount", "__dbg_parts:1_0_DebugNanCount", "__dbg_parts:2_0_DebugNumericSummary", "__dbg_x:0_0_DebugNanCount"} {
		if with.Lookup(want) == nil {
			t.Errorf("there is no node %s", want)
		}
	}
	if n := len(with.Nodes); n != 3+2*5 {
		t.Errorf("there are %d nodes", n)
	}
}

// References are kept, and so are the ends of a loop's back edge: a Merge waits for nothing else.
func TestReferencesAndLoops(t *testing.T) {
	g := scoped(t, func(s *op.Scope) {
		v := op.VariableV2(s.WithName("v"), shape.Of(), tensor.Int32)
		op.AssignAdd(s.WithName("add"), v, op.Const(s.WithName("one"), int32(1)))
		op.Neg(s.WithName("read"), v)
		enter := op.Enter(s.WithName("enter"), op.Const(s.WithName("zero"), int32(0)), "loop")
		next := op.NextIteration(s.WithName("next"), enter)
		op.Merge(s.WithName("merge"), []op.Output{enter, next})
	})
	with := insert(t, g, on("*", -1))
	wants(t, with, "add", "v", "__copy_one_0", "^__dbg_one:0_0_DebugIdentity", "^__dbg_v:0_0_DebugIdentity")
	wants(t, with, "read", "v", "^__dbg_v:0_0_DebugIdentity")
	wants(t, with, "merge", "__copy_enter_0", "next")
	wants(t, with, "__copy_next_0", "next")
	if n, _ := with.Lookup("enter").Attrs.Int("parallel_iterations"); n != 1 {
		t.Errorf("%d iterations run at a time", n)
	}
	if n, _ := g.Lookup("enter").Attrs.Int("parallel_iterations"); n == 1 {
		t.Error("the graph that was given has changed")
	}
}

func TestRefusals(t *testing.T) {
	g := scoped(t, func(s *op.Scope) { op.Const(s.WithName("x"), "text") })
	for _, c := range []struct {
		watch *corepb.DebugTensorWatch
		code  status.Code
		text  string
	}{
		{on("x", -2), status.InvalidArgument, "output slot -2"},
		{on("x", 0, "DebugNothing"), status.InvalidArgument, "DebugNothing"},
		{on("x", 0, "Neg"), status.InvalidArgument, "Neg"},
		{on("x", 0, "DebugNumericSummary(lower_bound=1"), status.InvalidArgument, "Malformed"},
		{on("x", 0, "DebugNumericSummary(lower_bound)"), status.InvalidArgument, "Malformed"},
		{on("x", 0, "DebugNumericSummary(lower_bound=1; lower_bound=2)"), status.InvalidArgument, "Malformed"},
		{on("x", 0, "DebugNumericSummary(lower_bound=low)"), status.InvalidArgument, "lower_bound"},
		{on("x", 0, "DebugNumericSummary(color=red)"), status.InvalidArgument, "color"},
		{on("x", 0, "DebugNanCount"), status.FailedPrecondition, "string"},
	} {
		_, err := Insert(g, device, Options{Watches: []*corepb.DebugTensorWatch{c.watch}, Supports: func(n *graph.Node) bool { return n.Op != "DebugNanCount" }})
		if status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: %v, want %v with %q", c.watch, err, c.code, c.text)
		}
	}
	tolerant := on("x", 0, "DebugNanCount")
	tolerant.TolerateDebugOpCreationFailures = true
	with, err := Insert(g, device, Options{Watches: []*corepb.DebugTensorWatch{tolerant}, Supports: func(*graph.Node) bool { return false }})
	if err != nil || len(with.Nodes) != 1 {
		t.Errorf("a watch that tolerates failures: %v, %d nodes", err, len(with.Nodes))
	}
}
