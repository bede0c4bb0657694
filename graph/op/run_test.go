package op_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// session opens a session of the graph on its own server.
func session(t *testing.T, s *op.Scope) *troupe.Session {
	t.Helper()
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	server, err := troupe.NewLocalServer(t.Context(), troupe.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	sess, err := server.NewSession(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

// names returns the names of tensors to fetch.
func names(fetches []op.Output) []string {
	out := make([]string, len(fetches))
	for i, f := range fetches {
		out[i] = f.Name()
	}
	return out
}

// fetch runs a step and returns the values, which all have the same type.
func fetch[T tensor.Value](t *testing.T, sess *troupe.Session, targets []*op.Operation, fetches ...op.Output) [][]T {
	t.Helper()
	var run []string
	for _, o := range targets {
		run = append(run, o.Name())
	}
	results, err := sess.Run(t.Context(), nil, names(fetches), run)
	if err != nil {
		t.Fatal(err)
	}
	out := make([][]T, len(results))
	for i, r := range results {
		v, err := tensor.Values[T](r)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = slices.Clone(v)
		r.Release()
	}
	return out
}

// want compares the elements of the fetched tensors.
func want[T tensor.Value](t *testing.T, got [][]T, values ...T) {
	t.Helper()
	var flat []T
	for _, g := range got {
		flat = append(flat, g...)
	}
	if !slices.Equal(flat, values) {
		t.Errorf("got %v, want %v", flat, values)
	}
}

func TestVariables(t *testing.T) {
	s := op.NewScope()
	w := op.NewVariable(s.WithName("w"), op.Const(s, []float32{1, 2, 3}))
	two := op.Const(s, []float32{2, 2, 2})
	double := w.Assign(s, op.Mul(s, w.Read(s), two))
	grown := w.Read(s.WithControlDependencies(w.AssignAdd(s, two)))
	rows := w.Gather(s, op.Const(s, []int32{2, 0}))
	row := w.ScatterUpdate(s, op.Const(s, int32(1)), op.Const(s, float32(9)))
	init := op.Initialize(s)
	known := w.Initialized(s)
	sess := session(t, s)
	want(t, fetch[bool](t, sess, nil, known), false)
	fetch[bool](t, sess, []*op.Operation{init})
	want(t, fetch[bool](t, sess, nil, known), true)
	want(t, fetch[float32](t, sess, []*op.Operation{double}))
	want(t, fetch[float32](t, sess, nil, grown), 4, 6, 8)
	want(t, fetch[float32](t, sess, nil, rows), 8, 4)
	want(t, fetch[float32](t, sess, []*op.Operation{row}))
	want(t, fetch[float32](t, sess, nil, grown), 6, 11, 10)
	if w.Name() != "w" || w.Initializer().Name() != "w/Assign" || w.Shape().String() != "[3]" {
		t.Errorf("%s of shape %v is initialized by %s", w.Name(), w.Shape(), w.Initializer().Name())
	}
}

// TestWhile: a loop uses tensors around it and a variable; a nested loop uses tensors of both.
func TestWhile(t *testing.T) {
	s := op.NewScope()
	zero, one := op.Const(s, int32(0)), op.Const(s, int32(1))
	n := op.Identity(s, op.Const(s, int32(4)))
	calls := op.NewVariable(s.WithName("calls"), op.Const(s, int32(0)))
	out := op.While(s, []op.Output{zero, zero},
		func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], n) },
		func(s *op.Scope, v []op.Output) []op.Output {
			counted := calls.AssignAdd(s, one)
			inner := op.While(s.WithControlDependencies(counted), []op.Output{zero, v[1]},
				func(s *op.Scope, w []op.Output) op.Output { return op.Less(s, w[0], v[0]) },
				func(s *op.Scope, w []op.Output) []op.Output {
					return []op.Output{op.AddV2(s, w[0], one), op.AddV2(s, w[1], n)}
				})
			return []op.Output{op.AddV2(s, v[0], one), inner[1]}
		})
	after := calls.Read(s.WithControlDependencies(out[0].Op))
	init := op.Initialize(s)
	sess := session(t, s)
	fetch[int32](t, sess, []*op.Operation{init})
	want(t, fetch[int32](t, sess, nil, out[0], out[1], after), 4, 24, 4) // (0+1+2+3) times n
	if out[0].Op.Type() != "While" {
		t.Errorf("a loop with an effect is a %s", out[0].Op.Type())
	}
}

func TestCondAndCase(t *testing.T) {
	s := op.NewScope()
	x, y := op.Identity(s, op.Const(s, []float32{1, 2})), op.Identity(s, op.Const(s, []float32{3, 4}))
	log := op.NewVariable(s.WithName("log"), op.Const(s, float32(0)))
	choose := func(pred bool) []op.Output {
		return op.Cond(s, op.Const(s, pred),
			func(s *op.Scope) []op.Output {
				add := log.AssignAdd(s, op.Const(s, float32(1)))
				return []op.Output{op.AddV2(s.WithControlDependencies(add), x, y), x}
			},
			func(s *op.Scope) []op.Output { return []op.Output{op.Mul(s, y, y), op.Const(s, []float32{5})} })
	}
	a, b := choose(true), choose(false)
	branch := func(v float32) func(s *op.Scope) []op.Output {
		return func(s *op.Scope) []op.Output { return []op.Output{op.Mul(s, x, op.Const(s, v))} }
	}
	c := op.Case(s, op.Const(s, int32(1)), []func(*op.Scope) []op.Output{branch(10), branch(100), branch(1000)})
	init, read := op.Initialize(s), log.Read(s)
	sess := session(t, s)
	fetch[float32](t, sess, []*op.Operation{init})
	want(t, fetch[float32](t, sess, nil, a[0], a[1], b[0], b[1], c[0]), 4, 6, 1, 2, 9, 16, 5, 100, 200)
	want(t, fetch[float32](t, sess, nil, read), 1)
	if a[1].Shape().String() != "[?]" || a[0].Op.Type() != "If" || c[0].Op.Type() != "StatelessCase" {
		t.Errorf("%s gives %v, then %s", a[0].Op.Type(), a[1].Shape(), c[0].Op.Type())
	}
}

// TestFunctions: functions capture what is around them, call other functions, and have unique names.
func TestFunctions(t *testing.T) {
	s := op.NewScope()
	scale := op.Identity(s, op.Const(s, float32(10)))
	x := op.Const(s, float32(2))
	scaled := op.NewFunction(s, "scaled", op.ParamsOf(x), func(s *op.Scope, args []op.Output) []op.Output {
		return []op.Output{op.Mul(s, args[0], scale), args[0]}
	})
	again := op.NewFunction(s, "scaled", op.ParamsOf(x), func(s *op.Scope, args []op.Output) []op.Output {
		return scaled.Call(s, scaled.Call(s, args[0])[0])
	})
	out := again.Call(s, x)
	sess := session(t, s)
	want(t, fetch[float32](t, sess, nil, out...), 200, 20)
	if scaled.Name() != "scaled" || again.Name() != "scaled_1" || len(again.Captures()) != 1 || again.Captures()[0] != scale {
		t.Errorf("%s and %s, which captures %v", scaled.Name(), again.Name(), again.Captures())
	}
}

func TestQueues(t *testing.T) {
	s := op.NewScope()
	types := []tensor.DType{tensor.Float32}
	rows := op.Const(s, []float32{3, 1, 2})
	two := op.Const(s, int32(2))
	fifo := op.NewFIFOQueue(s.WithName("fifo"), types, attr.Shapes([]shape.Shape{shape.Scalar()}))
	shuffled := op.NewShuffleQueue(s, types, attr.Shapes([]shape.Shape{shape.Scalar()}), attr.MinAfterDequeue(1))
	padded := op.NewPaddingFIFOQueue(s, types, attr.Shapes([]shape.Shape{shape.Of(-1)}))
	ordered := op.NewPriorityQueue(s, types, []shape.Shape{shape.Scalar()})
	fill := []*op.Operation{fifo.EnqueueMany(s, rows), shuffled.EnqueueMany(s, rows), ordered.EnqueueMany(s, op.Const(s, []int64{3, 1, 2}), rows),
		padded.Enqueue(s.WithControlDependencies(padded.Enqueue(s, rows)), op.Const(s, []float32{7}))}
	batch, rest := fifo.DequeueMany(s, two), fifo.DequeueUpTo(s, two)
	padding := padded.DequeueMany(s, two)
	one, first := shuffled.Dequeue(s), ordered.Dequeue(s)
	size, closed, end := fifo.Size(s), fifo.Closed(s), fifo.Close(s)
	for _, c := range []struct{ got, want string }{
		{batch[0].Shape().String(), "[2]"}, {rest[0].Shape().String(), "[?]"}, {padding[0].Shape().String(), "[2,?]"},
		{one[0].Shape().String(), "[]"}, {first[0].DType().String(), "int64"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	sess := session(t, s)
	fetch[float32](t, sess, fill)
	want(t, fetch[float32](t, sess, nil, batch[0]), 3, 1)
	want(t, fetch[int32](t, sess, nil, size), 1)
	want(t, fetch[float32](t, sess, nil, padding[0]), 3, 1, 2, 7, 0, 0)
	want(t, fetch[float32](t, sess, nil, first[1]), 1)
	fetch[float32](t, sess, nil, one[0])
	fetch[float32](t, sess, []*op.Operation{end})
	want(t, fetch[bool](t, sess, nil, closed), true)
	want(t, fetch[float32](t, sess, nil, rest[0]), 2)
}

func TestReadersAndTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "words.txt")
	if err := os.WriteFile(file, []byte("apple\t3\npear\t5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := op.NewScope()
	files := op.NewFIFOQueue(s, []tensor.DType{tensor.String})
	reader := op.NewTextLineReader(s)
	add := files.Enqueue(s, op.Const(s, file))
	_, line := reader.Read(s, files)
	read := reader.Records(s)
	prices := op.NewFileTable(s, op.Const(s, file), tensor.String, 0, tensor.Int64, 1)
	fixed := op.NewTable(s, op.Const(s, []string{"a", "b"}), op.Const(s, []int64{10, 20}))
	changing := op.NewMutableTable(s.WithName("changing"), tensor.String, tensor.Int64)
	none := op.Const(s, int64(-1))
	words := op.Const(s, []string{"pear", "b", "plum"})
	price, known := prices.Find(s, words, none), fixed.Find(s, words, none)
	insert := changing.Insert(s, words, op.Const(s, []int64{1, 2, 3}))
	remove := changing.Remove(s, op.Const(s, []string{"b"}))
	left, size := changing.Find(s, words, none), changing.Size(s)
	keys, _ := changing.Export(s)
	count := op.Size(s, keys)
	init := op.Initialize(s)
	sess := session(t, s)
	fetch[int64](t, sess, []*op.Operation{init, add})
	want(t, fetch[string](t, sess, nil, line), "apple\t3")
	want(t, fetch[string](t, sess, nil, line), "pear\t5")
	want(t, fetch[int64](t, sess, nil, read, price, known), 2, 5, -1, -1, -1, 20, -1)
	fetch[int64](t, sess, []*op.Operation{insert})
	fetch[int64](t, sess, []*op.Operation{remove})
	want(t, fetch[int64](t, sess, nil, left, size), 1, -1, 3, 2)
	want(t, fetch[int32](t, sess, nil, count), 2)
}

func TestTensorArrays(t *testing.T) {
	s := op.NewScope()
	one, n := op.Const(s, int32(1)), op.Const(s, int32(3))
	x := op.Const(s, []float32{1, 2})
	a := op.NewTensorArray(s, tensor.Float32, n)
	out := op.While(s, []op.Output{op.Const(s, int32(0)), a.Flow(), x},
		func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], n) },
		func(s *op.Scope, v []op.Output) []op.Output {
			return []op.Output{op.AddV2(s, v[0], one), a.WithFlow(v[1]).Write(s, v[0], v[2]).Flow(), op.Mul(s, v[2], x)}
		})
	all := a.WithFlow(out[1]).Stack(s)
	b := op.NewTensorArray(s, tensor.Float32, op.Const(s, int32(0)), attr.DynamicSize(true)).Unstack(s, all)
	row := b.Read(s, one)
	sess := session(t, s)
	want(t, fetch[float32](t, sess, nil, all, row), 1, 2, 1, 4, 1, 8, 1, 4)
}
