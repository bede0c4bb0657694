//go:build unix

package e2e

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// drawn returns a graph with most of what package op has beyond single ops, and what to run and fetch.
func drawn() (s *op.Scope, inits []*op.Operation, targets []*op.Operation, fetches []op.Output) {
	s = op.NewScope()
	zero, one, n := op.Const(s, int32(0)), op.Const(s, int32(1)), op.Identity(s, op.Const(s, int32(5)))
	x := op.Const(s, [][]float32{{1, 2}, {3, -4}})
	w := op.NewVariable(s.WithName("w"), op.Const(s, [][]float32{{0.5, 1}, {-1, 0.25}}))
	half := op.NewFunction(s, "half", op.ParamsOf(x), func(s *op.Scope, args []op.Output) []op.Output {
		return []op.Output{op.Mul(s, op.MatMul(s, args[0], w.Read(s), attr.TransposeB(true)), op.Const(s, float32(0.5)))}
	})
	a := op.NewTensorArray(s, tensor.Float32, n)
	loop := op.While(s, []op.Output{zero, x, a.Flow()},
		func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], n) },
		func(s *op.Scope, v []op.Output) []op.Output {
			next := op.Cond(s, op.Less(s, v[0], op.Const(s, int32(3))),
				func(s *op.Scope) []op.Output { return half.Call(s, v[1]) },
				func(s *op.Scope) []op.Output { return []op.Output{op.AddV2(s, v[1], x)} })[0]
			return []op.Output{op.AddV2(s, v[0], one), next, a.WithFlow(v[2]).Write(s, v[0], next).Flow()}
		})
	var branches []func(s *op.Scope) []op.Output
	for i := range 3 {
		branches = append(branches, func(s *op.Scope) []op.Output {
			return []op.Output{op.AddV2(s, loop[1], op.Const(s, float32(i)))}
		})
	}
	chosen := op.Case(s, op.FloorMod(s, n, op.Const(s, int32(3))), branches)[0]
	q := op.NewFIFOQueue(s.WithName("rows"), []tensor.DType{tensor.Float32}, attr.Shapes([]shape.Shape{shape.Of(2)}))
	table := op.NewTable(s, op.Const(s, []string{"a", "b"}), op.Const(s, []float32{7, 8}))
	found := table.Find(s, op.Const(s, []string{"b", "c"}), op.Const(s, float32(-1)))
	put := q.EnqueueMany(s, w.Read(s))
	inits = []*op.Operation{op.Initialize(s)}
	targets = []*op.Operation{put}
	taken := q.DequeueMany(s.WithControlDependencies(put), op.Const(s, int32(2)))
	// In TensorFlow, a control dependency on a conditional or loop only waits for its effects.
	last := op.Identity(s, chosen)
	grown := w.Read(s.WithControlDependencies(w.AssignAdd(s.WithControlDependencies(taken[0].Op, last.Op), x)))
	return s, inits, targets, []op.Output{loop[1], a.WithFlow(loop[2]).Stack(s), chosen, found, taken[0], grown}
}

func opNames(ops []*op.Operation) []string {
	out := make([]string, len(ops))
	for i, o := range ops {
		out[i] = o.Name()
	}
	return out
}

// TestDrawnGraphOnTensorFlow checks that a graph built in Go has the same results on TensorFlow's own servers, sent by its own client, as
// on Troupe.
func TestDrawnGraphOnTensorFlow(t *testing.T) {
	t.Parallel()
	needPython(t)
	s, inits, targets, fetches := drawn()
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range fetches {
		names = append(names, f.Name())
	}
	graph, err := proto.Marshal(def)
	if err != nil {
		t.Fatal(err)
	}
	step := map[string]any{"feed": map[string]any{}, "fetch": names, "target": opNames(targets)}
	about, err := json.Marshal(map[string]any{"init": opNames(inits), "steps": []any{step, step, step}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"drawn.pb": graph, "drawn.json": about} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t, "worker=2")
	expect(t, "graph", program(t, drivers.borrow(t), "random_graphs.py", dir, c.tasks[0].target()), "same: 1 of 1")
}

// TestFrozenGraph runs from Go a graph that Python froze, with loops and conditionals of both kinds and functions. Its input is replaced by
// a tensor of the surrounding graph.
func TestFrozenGraph(t *testing.T) {
	t.Parallel()
	needPython(t)
	dir := t.TempDir()
	file, values := filepath.Join(dir, "frozen.pb"), filepath.Join(dir, "values.txt")
	expect(t, "program", program(t, drivers.borrow(t), "freeze.py", file, values), "frozen")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	def := &graphpb.GraphDef{}
	if err := proto.Unmarshal(data, def); err != nil {
		t.Fatal(err)
	}
	s := op.NewScope()
	x := op.Const(s, [][]float32{{0.5, -1}, {2, 3}})
	model, err := op.Import(s.SubScope("model"), def, map[string]op.Output{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	y := op.Identity(s, model.Output("y:0"))
	def, err = s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := embed(t, "local", 1).servers[0].NewSession(bounded(t), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := session.Run(bounded(t), nil, []string{y.Name()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got[0].Release()
	text, err := os.ReadFile(values)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	have := tensor.Of[float32](got[0])
	if len(have) != len(fields) || len(have) == 0 {
		t.Fatalf("%d values, TensorFlow gives %d", len(have), len(fields))
	}
	for i, f := range fields {
		want, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		if diff := math.Abs(float64(have[i]) - want); diff > 1e-4*max(1, math.Abs(want)) {
			t.Errorf("value %d is %v, with TensorFlow %v", i, have[i], want)
		}
	}
}
