package troupe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// durableGraph has a variable and a queue in a durable container, and a queue in another one.
type durableGraph struct {
	*op.Scope
	assign, add, put, putOther           *op.Operation
	value, take, size, otherSize, reader op.Output
}

func newDurableGraph() *durableGraph {
	s := op.NewScope()
	jobs := []attr.Attr{attr.Container("jobs"), attr.SharedName("x")}
	g := &durableGraph{Scope: s}
	v := op.VarHandleOp(s, tensor.Int64, shape.Scalar(), jobs...)
	g.assign = op.AssignVariableOp(s, v, op.Const(s, int64(40)))
	g.add = op.AssignAddVariableOp(s, v, op.Const(s, int64(1)))
	g.value = op.ReadVariableOp(s, v, tensor.Int64)
	q := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, jobs...)
	g.put = op.QueueEnqueueV2(s, q, []op.Output{op.Const(s, "element")})
	g.take = op.QueueDequeueV2(s, q, []tensor.DType{tensor.String})[0]
	g.size = op.QueueSizeV2(s, q)
	other := op.FIFOQueueV2(s, []tensor.DType{tensor.String}, attr.SharedName("x"))
	g.putOther = op.QueueEnqueueV2(s, other, []op.Output{op.Const(s, "element")})
	g.otherSize = op.QueueSizeV2(s, other)
	g.reader = op.ReaderNumRecordsProducedV2(s, op.WholeFileReaderV2(s, jobs...))
	return g
}

// TestDurableContainers restarts a server: what is in durable containers is there again, and nothing else.
func TestDurableContainers(t *testing.T) {
	dir := t.TempDir()
	keep := WithDurable(dir, "jobs")
	g := newDurableGraph()
	during := func(use func(s *Server, run func(...op.Runnable) []int64)) {
		t.Helper()
		s, err := NewLocalServer(t.Context(), silent, keep)
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, s)
		session := sessionOf(t, s, g.Scope)
		use(s, func(what ...op.Runnable) (values []int64) {
			t.Helper()
			out, err := session.Eval(t.Context(), nil, what...)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range out {
				switch v.DType() {
				case tensor.Int64:
					values = append(values, tensor.Of[int64](v)[0])
				case tensor.Int32:
					values = append(values, int64(tensor.Of[int32](v)[0]))
				}
				v.Release()
			}
			return values
		})
	}
	is := func(what string, got []int64, want ...int64) {
		t.Helper()
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %v, and should be %v", what, got, want)
				return
			}
		}
	}
	during(func(s *Server, run func(...op.Runnable) []int64) {
		run(g.assign)
		run(g.add, g.put, g.putOther)
		run(g.add, g.put)
		run(g.put)
		run(g.take)
		is("before", run(g.value, g.size, g.otherSize), 42, 2, 1)
	})
	during(func(s *Server, run func(...op.Runnable) []int64) {
		is("after a restart", run(g.value, g.size, g.otherSize), 42, 2, 0)
		run(g.add, g.take)
		session := sessionOf(t, s, g.Scope)
		if _, err := session.Eval(t.Context(), nil, g.reader); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "cannot be kept") {
			t.Errorf("a reader in a durable container: %v", err)
		}
		if _, err := NewLocalServer(t.Context(), silent, keep); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("a server with the directory of another one: %v", err)
		}
	})
	if _, err := NewLocalServer(t.Context(), silent, WithDurable(dir, "others")); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "jobs") {
		t.Errorf("a server that does not declare what is there: %v", err)
	}
	if _, err := NewLocalServer(t.Context(), silent, WithDurable(dir)); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a server with a directory and nothing to keep: %v", err)
	}
	during(func(s *Server, run func(...op.Runnable) []int64) {
		is("after a second restart", run(g.value, g.size), 43, 1)
		c, err := client.Dial(t.Context(), s.Target())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.WithoutCancel(t.Context()))
		if err := c.Reset(t.Context(), "jobs"); err != nil {
			t.Fatal(err)
		}
	})
	during(func(s *Server, run func(...op.Runnable) []int64) {
		is("after a reset and a restart", run(g.size), 0)
		session := sessionOf(t, s, g.Scope)
		if _, err := session.Eval(t.Context(), nil, g.value); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("a variable that was reset: %v", err)
		}
	})
}

// durableUse is a kind of durable resource: op makes it larger, undo makes it smaller again.
type durableUse struct {
	kind     string
	op, undo op.Runnable
}

// durableUses returns uses of resources of each kind. All have something after the first op.
func durableUses(s *op.Scope) []durableUse {
	in := func(name string) []attr.Attr { return []attr.Attr{attr.Container("jobs"), attr.SharedName(name)} }
	types := []tensor.DType{tensor.Int64}
	value, key, index := op.Const(s, int64(7)), op.Const(s, []string{"key"}), op.Const(s, []int32{0})
	number := op.Const(s, int64(1))

	variable := op.VarHandleOp(s, tensor.Int64, shape.Unknown(), in("variable")...)
	queue := op.FIFOQueueV2(s, types, in("queue")...)
	table := op.MutableHashTableV2(s, tensor.String, tensor.Int64, in("table")...)
	sum := op.ResourceConditionalAccumulator(s, tensor.Float32, shape.Scalar(), in("accumulator")...)
	barrier := op.Barrier(s, types, append(in("barrier"), attr.Shapes([]shape.Shape{shape.Scalar()}))...)
	_, _, taken := op.BarrierTakeMany(s, barrier, op.Const(s, int32(1)), types)
	return []durableUse{
		{"variable", op.AssignVariableOp(s, variable, op.Const(s, []int64{1, 2, 3})), op.AssignVariableOp(s, variable, value)},
		{"queue", op.QueueEnqueueV2(s, queue, []op.Output{value}), op.QueueDequeueV2(s, queue, types)[0]},
		{"table", op.LookupTableInsertV2(s, table, key, op.Const(s, []int64{1})), op.LookupTableRemoveV2(s, table, key)},
		{"accumulator", op.ResourceAccumulatorApplyGradient(s, sum, number, op.Const(s, float32(1))), op.ResourceAccumulatorTakeGradient(s, sum, op.Const(s, int32(1)), tensor.Float32)},
		{"barrier", op.BarrierInsertMany(s, barrier, key, op.Const(s, []int64{1}), 0), taken[0]},
		{"staging area", op.Stage(s, []op.Output{value}, in("stage")...), op.Unstage(s, types, in("stage")...)[0]},
		{"staging map", op.MapStage(s, number, index, []op.Output{value}, types, in("map")...), op.MapUnstage(s, number, index, types, in("map")...)[0]},
	}
}

// TestDataLimit: beyond the limit, what makes resources of any kind larger is refused, and what makes them smaller, or no larger, is not.
func TestDataLimit(t *testing.T) {
	dir := t.TempDir()
	scope := op.NewScope()
	uses := durableUses(scope)
	for _, c := range []struct {
		what  string
		limit int64
		use   func(u durableUse, eval func(op.Runnable) error)
	}{
		{"without a limit", 0, func(u durableUse, eval func(op.Runnable) error) {
			if err := eval(u.op); err != nil {
				t.Errorf("%s: %v", u.kind, err)
			}
		}},
		{"with a limit", 1, func(u durableUse, eval func(op.Runnable) error) {
			if err := eval(u.undo); err != nil {
				t.Errorf("a smaller %s beyond the limit: %v", u.kind, err)
			}
			if err := eval(u.op); status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "--data-limit") {
				t.Errorf("a larger %s beyond the limit: %v", u.kind, err)
			}
		}},
		{"below a limit", 1 << 30, func(u durableUse, eval func(op.Runnable) error) {
			if err := errors.Join(eval(u.op), eval(u.undo)); err != nil {
				t.Errorf("%s, with room again: %v", u.kind, err)
			}
		}},
	} {
		server, err := NewLocalServer(t.Context(), silent, WithDurable(dir, "jobs"), WithDataLimit(c.limit), WithCompactionRate(c.limit))
		if err != nil {
			t.Fatal(err)
		}
		session := sessionOf(t, server, scope)
		for _, u := range uses {
			c.use(u, func(what op.Runnable) error {
				out, err := session.Eval(t.Context(), nil, what)
				for _, v := range out {
					v.Release()
				}
				return err
			})
		}
		stop(t, server)
	}
	for _, o := range []Option{WithDataLimit(1), WithCompactionRate(1), WithDataLimit(-1), WithCompactionRate(-1)} {
		if _, err := NewLocalServer(t.Context(), silent, o); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("a limit of nothing: %v", err)
		}
	}
}
