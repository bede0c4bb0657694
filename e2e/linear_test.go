//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"github.com/troupe-run/troupe/remote/client"
)

// call is an operation of a history, and answer its result.
type (
	call struct {
		op    string // put, get, size, close; add, read
		value int64
	}
	answer64 struct {
		value int64
		code  status.Code
	}
)

// history is the operations of concurrent clients and their results.
type history struct {
	begun time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *history) record(client int, c call, do func() answer64) answer64 {
	op := porcupine.Operation{ClientId: client, Input: c, Call: time.Since(h.begun).Nanoseconds()}
	a := do()
	op.Output, op.Return = a, time.Since(h.begun).Nanoseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	return a
}

// queueState is the model of a FIFOQueue.
type queueState struct {
	elems  []int64
	closed bool
}

// queueModel returns the sequential behaviour of a FIFOQueue of a capacity: operations that would wait are not possible yet.
func queueModel(capacity int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return queueState{} },
		Step: func(state, input, output any) (bool, any) {
			s, c, a := state.(queueState), input.(call), output.(answer64)
			switch {
			case c.op == "put" && a.code == status.OK:
				return !s.closed && len(s.elems) < capacity, queueState{append(slices.Clone(s.elems), c.value), s.closed}
			case c.op == "put":
				return s.closed && a.code == status.Cancelled, s
			case c.op == "get" && a.code == status.OK:
				if len(s.elems) == 0 || s.elems[0] != a.value {
					return false, s
				}
				return true, queueState{s.elems[1:], s.closed}
			case c.op == "get":
				return s.closed && len(s.elems) == 0 && a.code == status.OutOfRange, s
			case c.op == "size":
				return a.code == status.OK && int(a.value) == len(s.elems), s
			default: // close, once
				return a.code == status.OK && !s.closed, queueState{s.elems, true}
			}
		},
		Equal: func(a, b any) bool {
			x, y := a.(queueState), b.(queueState)
			return x.closed == y.closed && slices.Equal(x.elems, y.elems)
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprint(input, output) },
	}
}

// sumModel returns the model of a variable that is added to and read.
func sumModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			s, c, a := state.(int64), input.(call), output.(answer64)
			if c.op == "add" {
				return a.code == status.OK, s + c.value
			}
			return a.code == status.OK && a.value == s, s
		},
	}
}

// linearizable fails the test if no order of a history's operations explains it.
func linearizable(t *testing.T, m porcupine.Model, ops []porcupine.Operation) {
	t.Helper()
	if r := porcupine.CheckOperationsTimeout(m, ops, extent.Slack(20*time.Second)); r != porcupine.Ok {
		t.Errorf("%s: %d operations", r, len(ops))
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		for _, op := range ops {
			t.Logf("%9d to %9d, client %d: %v gives %v", op.Call, op.Return, op.ClientId, op.Input, op.Output)
		}
	}
}

// refuses fails the test if a history that was tampered with passes, since the check would then be useless.
func refuses(t *testing.T, m porcupine.Model, ops []porcupine.Operation, how string) {
	t.Helper()
	if r := porcupine.CheckOperationsTimeout(m, ops, extent.Slack(20*time.Second)); r == porcupine.Ok {
		t.Errorf("a history passes in which %s", how)
	}
}

// sharer is a session of one of several clients that share a queue and variables by name.
type sharer struct {
	*client.Session
	ctx context.Context
	id  int
}

// share connects the given number of clients to the tasks of e in turn, each with a session of the same graph.
func share(t *testing.T, e *embedded, clients int, nodes ...*nodepb.NodeDef) []sharer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(30*time.Second))
	t.Cleanup(cancel)
	var all []sharer
	for i := range clients {
		c, err := client.Dial(t.Context(), e.servers[i%len(e.servers)].Target())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		s, err := c.NewSession(ctx, graphOf(nodes...), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(ctx) })
		all = append(all, sharer{s, ctx, i})
	}
	return all
}

// run runs a step that is fed at most one number and fetches at most one.
func (s sharer) run(feed string, value int64, fetch, target string) answer64 {
	feeds := map[string]*tensor.Tensor{}
	if feed != "" {
		feeds[feed] = tensor.Scalar(tensor.Int64, value)
		defer feeds[feed].Release()
	}
	var fetches, targets []string
	if fetch != "" {
		fetches = []string{fetch}
	}
	if target != "" {
		targets = []string{target}
	}
	out, err := s.Run(s.ctx, feeds, fetches, targets)
	a := answer64{code: status.CodeOf(err)}
	if err == nil && fetch != "" {
		if out[0].DType() == tensor.Int32 {
			a.value = int64(tensor.Of[int32](out[0])[0])
		} else {
			a.value = tensor.Of[int64](out[0])[0]
		}
		out[0].Release()
	}
	return a
}

func nodeWith(name, op string, task int, attrs kt.Attrs, inputs ...string) *nodepb.NodeDef {
	return onTask(&nodepb.NodeDef{Name: name, Op: op, Input: inputs, Attr: attrs.Proto()}, "worker", task)
}

// queueNodes returns a graph with a queue of int64 on task 1, shared by name, and the ops on it.
func queueNodes(kind, name string, capacity int) []*nodepb.NodeDef {
	ints := []tensor.DType{tensor.Int64}
	attrs := kt.Attrs{"component_types": ints, "shapes": []tensor.Shape{{}}, "capacity": capacity, "shared_name": name}
	components := []string{"x"}
	if kind == "PriorityQueueV2" { // a number is its own priority
		ints = append(ints, tensor.Int64)
		components = append(components, "x")
	}
	scalar := kt.Attrs{"dtype": tensor.Int64, "shape": kt.Unknown{}}
	return []*nodepb.NodeDef{
		nodeWith("q", kind, 1, attrs),
		nodeWith("x", "Placeholder", 0, scalar),
		nodeWith("n", "Placeholder", 0, kt.Attrs{"dtype": tensor.Int32, "shape": kt.Unknown{}}),
		nodeWith("put", "QueueEnqueueV2", 1, kt.Attrs{"Tcomponents": ints}, append([]string{"q"}, components...)...),
		nodeWith("put_many", "QueueEnqueueManyV2", 1, kt.Attrs{"Tcomponents": ints}, append([]string{"q"}, components...)...),
		nodeWith("get", "QueueDequeueV2", 1, kt.Attrs{"component_types": ints}, "q"),
		nodeWith("get_many", "QueueDequeueManyV2", 1, kt.Attrs{"component_types": ints}, "q", "n"),
		nodeWith("get_up_to", "QueueDequeueUpToV2", 1, kt.Attrs{"component_types": ints}, "q", "n"),
		nodeWith("size", "QueueSizeV2", 1, nil, "q"),
		nodeWith("close", "QueueCloseV2", 1, kt.Attrs{"cancel_pending_enqueues": false}, "q"),
		nodeWith("close_now", "QueueCloseV2", 1, kt.Attrs{"cancel_pending_enqueues": true}, "q"),
	}
}

// TestQueueIsLinearizable checks that a queue is linearizable to clients of two masters that concurrently enqueue, dequeue, read its size
// and close it.
func TestQueueIsLinearizable(t *testing.T) {
	t.Parallel()
	e := embed(t, "worker", 2)
	const capacity, rounds, producers, consumers, puts = 3, 12, 4, 3, 8
	tampered := 0
	for round := range rounds {
		name := fmt.Sprint("linear", round)
		all := share(t, e, producers+consumers, queueNodes("FIFOQueueV2", name, capacity)...)
		h := &history{begun: time.Now()}
		closing := "close"
		if round%2 == 1 {
			closing = "close_now"
		}
		var done sync.WaitGroup
		var put atomic.Int64
		for _, s := range all {
			r := rand.New(rand.NewPCG(uint64(round), uint64(s.id)))
			done.Go(func() {
				for i := int64(0); s.id < producers && i < puts; i++ {
					value := int64(s.id)*puts + i
					h.record(s.id, call{"put", value}, func() answer64 { return s.run("x:0", value, "", "put") })
					// The client that enqueues this element closes the queue while others still enqueue.
					if put.Add(1) == producers*puts*3/4 {
						h.record(s.id, call{op: "close"}, func() answer64 { return s.run("", 0, "", closing) })
					}
				}
				for s.id >= producers {
					if r.IntN(4) == 0 {
						h.record(s.id, call{op: "size"}, func() answer64 { return s.run("", 0, "size:0", "") })
					}
					a := h.record(s.id, call{op: "get"}, func() answer64 { return s.run("", 0, "get:0", "") })
					if a.code != status.OK {
						return
					}
				}
			})
		}
		done.Wait()
		linearizable(t, queueModel(capacity), h.ops)
		if t.Failed() {
			return
		}
		if ops := early(h.ops); ops != nil {
			tampered++
			refuses(t, queueModel(capacity), ops, "an element left before it came")
		}
		if i := slices.IndexFunc(h.ops, func(o porcupine.Operation) bool {
			return o.Input.(call).op == "get" && o.Output.(answer64).code == status.OK
		}); i >= 0 {
			refuses(t, queueModel(capacity), slices.Delete(slices.Clone(h.ops), i, i+1), "an element is lost")
		}
	}
	if tampered == 0 {
		t.Error("no history was one to tamper with")
	}
}

// early returns a history in which the answers of two gets are exchanged, so that one returns an element before it was put. It is nil if
// that is not possible.
func early(ops []porcupine.Operation) []porcupine.Operation {
	came := map[int64]int64{}
	var gets []int
	for i, op := range ops {
		c, a := op.Input.(call), op.Output.(answer64)
		switch {
		case c.op == "put":
			came[c.value] = op.Call
		case c.op == "get" && a.code == status.OK:
			gets = append(gets, i)
		}
	}
	for _, i := range gets {
		for _, j := range gets {
			if later := ops[j].Output.(answer64).value; came[later] > ops[i].Return {
				out := slices.Clone(ops)
				out[i].Output, out[j].Output = ops[j].Output, ops[i].Output
				return out
			}
		}
	}
	return nil
}

// TestAssignAddIsLinearizable checks that additions to a shared variable are not lost and are seen in one order, for reference variables
// with locking and for resource variables.
func TestAssignAddIsLinearizable(t *testing.T) {
	t.Parallel()
	e := embed(t, "worker", 2)
	zero := kt.Attrs{"dtype": tensor.Int64, "value": tensor.Scalar(tensor.Int64, int64(0))}
	fed := nodeWith("x", "Placeholder", 0, kt.Attrs{"dtype": tensor.Int64, "shape": tensor.Shape{}})
	ints := kt.Attrs{"T": tensor.Int64, "use_locking": true}
	variable := kt.Attrs{"dtype": tensor.Int64, "shape": tensor.Shape{}, "shared_name": "sum"}
	typed := kt.Attrs{"dtype": tensor.Int64}
	for name, nodes := range map[string][]*nodepb.NodeDef{
		"reference": {fed, nodeWith("zero", "Const", 1, zero), nodeWith("v", "VariableV2", 1, variable),
			nodeWith("init", "Assign", 1, ints, "v", "zero"), nodeWith("add", "AssignAdd", 1, ints, "v", "x"),
			nodeWith("read", "Identity", 1, kt.Attrs{"T": tensor.Int64}, "v")},
		"resource": {fed, nodeWith("zero", "Const", 1, zero), nodeWith("v", "VarHandleOp", 1, variable),
			nodeWith("init", "AssignVariableOp", 1, typed, "v", "zero"), nodeWith("add", "AssignAddVariableOp", 1, typed, "v", "x"),
			nodeWith("read", "ReadVariableOp", 1, typed, "v")},
	} {
		t.Run(name, func(t *testing.T) {
			all := share(t, e, 6, nodes...)
			if a := all[0].run("", 0, "", "init"); a.code != status.OK {
				t.Fatal(a.code)
			}
			h := &history{begun: time.Now()}
			var done sync.WaitGroup
			for _, s := range all {
				r := rand.New(rand.NewPCG(1, uint64(s.id)))
				done.Go(func() {
					for range 40 {
						if r.IntN(3) == 0 {
							h.record(s.id, call{op: "read"}, func() answer64 { return s.run("", 0, "read:0", "") })
							continue
						}
						by := int64(1 + r.IntN(1000))
						h.record(s.id, call{"add", by}, func() answer64 { return s.run("x:0", by, "", "add") })
					}
				})
			}
			done.Wait()
			h.record(0, call{op: "read"}, func() answer64 { return all[0].run("", 0, "read:0", "") })
			linearizable(t, sumModel(), h.ops)
			i := slices.IndexFunc(h.ops, func(o porcupine.Operation) bool { return o.Input.(call).op == "add" })
			refuses(t, sumModel(), slices.Delete(slices.Clone(h.ops), i, i+1), "an addition is lost")
		})
	}
}
