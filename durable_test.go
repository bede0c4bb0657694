package troupe

import (
	"context"
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
