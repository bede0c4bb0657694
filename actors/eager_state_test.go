package actors

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

const scalarFloat = `attrs { key: "dtype" value { type: DT_FLOAT } } attrs { key: "shape" value { shape { dim { size: 2 } } } } `

// queueAttrs are those of a queue of vectors with a name.
func queueAttrs(name string) string {
	return attr("component_types", "list { type: DT_FLOAT }") + attr("shared_name", `s: "`+name+`"`)
}

// Variables with a name belong to the task: contexts and TensorFlow 1 sessions share them.
func TestEagerVariables(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	other := newEager(t, n, EagerSpec{ID: 2, Task: "/job:other/replica:0/task:0"})
	isolated := newEager(t, n, EagerSpec{ID: 3, Isolated: true})
	shared := scalarFloat + attr("shared_name", `s: "v"`) + attr("container", `s: "c"`)
	c.send(1, 1, 2)
	c.run(op(2, "VarHandleOp", shared))
	c.run(op(3, "AssignVariableOp", "", "2:0", "1:0"))
	o := on("/job:other/replica:0/task:0/device:CPU:0", op(2, "VarHandleOp", shared))
	other.run(o)
	read := attr("dtype", "type: DT_FLOAT")
	other.run(on("", op(3, "ReadVariableOp", read, "2:0")))
	other.want("3:0", 1, 2)
	isolated.run(op(2, "VarHandleOp", shared))
	_, err := isolated.Run(t.Context(), op(3, "ReadVariableOp", read, "2:0"))
	wantError(t, err, status.FailedPrecondition, "Could not find variable v")

	s := open(t, n, `
	v = VarHandleOp() @a0 dtype=float shared_name="v" container="c"
	r = ReadVariableOp(v) dtype=float
`)
	r, err := s.session.Run(t.Context(), &StepRequest{Fetches: []string{"r:0"}})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, r.Tensors[0], 1, 2)
	r.Release()
	s.close()

	c.run(op(4, "AssignAddVariableOp", "", "2:0", "1:0"))
	c.run(op(5, "ReadVariableOp", read, "2:0"))
	c.want("5:0", 2, 4)
	c.want("1:0", 1, 2)
	c.close()
	other.run(on("", op(4, "ReadVariableOp", read, "2:0"))) // variables outlive the context
	other.want("4:0", 2, 4)
}

// Variables without a name live as long as handles to them.
func TestEagerAnonymousVariables(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	anonymous := scalarFloat + attr("shared_name", `s: "`+graph.AnonymousName+`"`)
	read := attr("dtype", "type: DT_FLOAT")
	c.send(1, 1, 2)
	c.send(2, 3, 4)
	c.run(op(10, "VarHandleOp", anonymous))
	c.run(op(11, "VarHandleOp", anonymous))
	c.run(op(12, "AssignVariableOp", "", "10:0", "1:0"))
	c.run(op(13, "AssignVariableOp", "", "11:0", "2:0"))
	c.run(op(14, "ReadVariableOp", read, "10:0"))
	c.want("14:0", 1, 2)
	if err := c.Decref(handle("10:0")); err != nil {
		t.Fatal(err)
	}
	c.run(op(15, "ReadVariableOp", read, "11:0"))
	c.want("15:0", 3, 4)
	c.close()
	c.EagerContext = nil
	collect(n)
}

// collect lets the collector find that nothing refers to what a node's contexts had, whose memory is then free.
func collect(n *node) {
	for range 100 {
		if runtime.GC(); n.device.Pool().Stats().InUse == 0 {
			return
		}
		runtime.Gosched()
	}
}

// Tables whose names the client counted belong to their handles, since the next program counts the same names. Others are shared by name.
func TestEagerCountedTables(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	next := newEager(t, n, EagerSpec{ID: 2})
	scalars := attr("key_dtype", "type: DT_INT64") + attr("value_dtype", "type: DT_INT64")
	dense := scalars + attr("value_shape", "shape { }")
	for _, client := range []*eagerClient{c, next} {
		elements, err := tensor.FromValues([]int64{7})
		if err != nil {
			t.Fatal(err)
		}
		client.sendTensor(1, elements)
		client.sendTensor(2, tensor.FromScalar(int64(-1)))
		client.sendTensor(3, tensor.FromScalar(int64(-2)))
	}
	id := int64(10)
	for _, table := range []struct {
		op, name, attrs string
		want            int64 // how many elements the next program finds
	}{
		{"HashTableV2", "8", scalars, 0},
		{"MutableHashTableV2", "table_8", scalars, 0},
		{"MutableDenseHashTableV2", "table_10", dense, 0},
		{"HashTableV2", "hash_table_vocabulary.txt_-2_-1", scalars, 1},
		{"MutableHashTableV2", "table_8_of_users", scalars, 1},
		{"MutableHashTableV2", "8", scalars + attr("container", `s: "c"`), 1},
	} {
		t.Run(table.op+" "+table.name, func(t *testing.T) {
			id += 10
			attrs, fill := table.attrs+attr("shared_name", `s: "`+table.name+`"`), "LookupTableInsertV2"
			var inputs []string
			switch table.op {
			case "HashTableV2":
				fill = "InitializeTableV2"
			case "MutableDenseHashTableV2":
				inputs = []string{"2:0", "3:0"}
			}
			made := strconv.FormatInt(id, 10) + ":0"
			c.run(op(id, table.op, attrs, inputs...))
			c.run(op(id+1, fill, "", made, "1:0", "1:0"))
			next.run(op(id, table.op, attrs, inputs...))
			next.run(op(id+1, "LookupTableSizeV2", "", made))
			size, err := next.handles.get(handleKey{id + 1, 0})
			if err != nil {
				t.Fatal(err)
			}
			defer size.Release()
			if got := tensor.Of[int64](size)[0]; got != table.want {
				t.Errorf("the next program's table has %d elements, want %d", got, table.want)
			}
		})
	}
	for _, client := range []*eagerClient{c, next} {
		client.close()
		client.EagerContext = nil
	}
	collect(n)
}

// Where a policy allows just one of the two ops that make a table, it is the client's own that is run or refused.
func TestEagerCountedTablesUnderAPolicy(t *testing.T) {
	n := newNetwork(t, "a").node(taskName("a"))
	table := attr("key_dtype", "type: DT_INT64") + attr("value_dtype", "type: DT_INT64") + attr("shared_name", `s: "8"`)
	for i, denied := range []string{"AnonymousMutableHashTable", "MutableHashTableV2"} {
		by := everything
		by.Scope = denying(denied, "vault")
		c, err := n.task.CreateEagerContext(t.Context(), 0, by, EagerSpec{ID: uint64(i + 1), Task: eagerTask})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Run(t.Context(), op(10, "MutableHashTableV2", table))
		if want := []status.Code{status.OK, status.PermissionDenied}[i]; status.CodeOf(err) != want {
			t.Errorf("without %s: %v, want %v", denied, err, want)
		}
	}
}

// Random ops keep their state from one run to the next, and equal ops with other attributes have their own.
func TestEagerStatefulOps(t *testing.T) {
	net := newNetwork(t, "a")
	c := newEager(t, net.node(taskName("a")), EagerSpec{ID: 1})
	shape := c.scalarShape(1, 4)
	draw := func(id int64, seed string) []float32 {
		c.run(op(id, "RandomUniform", attr("dtype", "type: DT_FLOAT")+attr("seed", "i: "+seed)+attr("seed2", "i: 1"), shape))
		v, _ := c.handles.get(handleKey{id, 0})
		defer v.Release()
		got, err := tensor.Values[float32](v)
		if err != nil {
			t.Fatal(err)
		}
		return append([]float32(nil), got...)
	}
	first, second, other := draw(2, "7"), draw(3, "7"), draw(4, "8")
	if first[0] == second[0] || first[0] == other[0] {
		t.Errorf("drew %v, %v and %v", first, second, other)
	}
	// Queues without a name are private to their kernels, also if they have other types.
	c.run(op(5, "FIFOQueueV2", attr("component_types", "list { type: DT_FLOAT }")))
	c.run(op(6, "FIFOQueueV2", attr("component_types", "list { type: DT_INT32 }")))
}

// scalarShape makes a handle of a vector of one int32.
func (c *eagerClient) scalarShape(id int64, v int32) string {
	c.t.Helper()
	x, err := tensor.FromValues([]int32{v})
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendTensor(id, x)
	return "1:0"
}

// A dequeue waits without holding up other ops, keeps the queue that was released under it, and ends with its call.
func TestEagerWaitingOps(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	c.send(1, 1, 2)
	c.run(op(2, "FIFOQueueV2", queueAttrs("q")))
	dequeue := attr("component_types", "list { type: DT_FLOAT }")
	begin := func(ctx context.Context, id int64) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := c.Run(ctx, op(id, "QueueDequeueV2", dequeue, "2:0"))
			ended <- err
		}()
		c.waitsFor("QueueDequeueV2")
		return ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := begin(ctx, 3)
	cancel()
	wantError(t, <-ended, status.Cancelled, "cancelled")

	ended = begin(t.Context(), 4)
	if err := c.Decref(handle("2:0")); err != nil {
		t.Fatal(err)
	}
	c.run(op(5, "FIFOQueueV2", queueAttrs("q")))
	c.run(op(6, "QueueEnqueueV2", "", "5:0", "1:0"))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	c.want("4:0", 1, 2)

	c.run(op(2, "FIFOQueueV2", queueAttrs("q")))
	ended = begin(t.Context(), 7)
	c.close()
	wantError(t, <-ended, status.Cancelled, "closed")
}

// Clients take UNAVAILABLE for the loss of a task, so that of a kernel is INTERNAL.
func TestEagerUnavailable(t *testing.T) {
	net := newNetwork(t, "a")
	c := newEager(t, net.node(taskName("a")), EagerSpec{ID: 1, Peers: map[string]string{eagerPeer: "peer:1"}})
	c.run(op(1, "FIFOQueueV2", queueAttrs("q")))
	c.run(op(2, "QueueCloseV2", attr("_close_code", "i: 14")+attr("_close_reason", `s: "the source is down"`), "1:0"))
	_, err := c.Run(t.Context(), op(3, "QueueDequeueV2", attr("component_types", "list { type: DT_FLOAT }"), "1:0"))
	wantError(t, err, status.Internal, "the source is down")
	c.task.Pull = func(context.Context, string, int64, string) (*tensor.Tensor, bool, error) {
		return nil, false, status.Errorf(status.Unavailable, "failed to connect to all addresses")
	}
	c.send(1, 1, 2)
	c.registerComponent(c.component("f_partitioned_0"))
	_, err = c.RunComponent(t.Context(), part(-5, 4, "f_partitioned_0", []int32{0}, "1:0"))
	wantError(t, err, status.Unavailable, "failed to connect to all addresses")
}

// A context shows as what it is among the sessions.
func TestEagerView(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 9, KeepAlive: time.Hour})
	c.send(1, 1, 2)
	c.register(double)
	c.run(call(2, "double", "1:0"))
	seen := n.task.Look(&view.Query{Sections: []string{"sessions"}})
	if len(seen.Sessions) != 1 {
		t.Fatalf("the sessions are %v", seen.Sessions)
	}
	s := seen.Sessions[0]
	if e := s.Eager; s.Who != everything.Who || s.StepsDone != 1 || e.GetId() != 9 || e.GetHandles() != 2 || e.GetFunctions() != 1 || e.GetKeepAlive() != int64(time.Hour) || e.GetTask() != eagerTask {
		t.Errorf("the session is %v", s)
	}
	if sum := seen.Totals; sum.EagerContexts != 1 || sum.EagerHandles != 2 || sum.EagerFunctions != 1 {
		t.Errorf("the totals are %v", sum)
	}
}

// waitsFor returns once one of the context's steps waits for an op.
func (c *eagerClient) waitsFor(op string) {
	c.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		for _, st := range c.node.task.steps.running(c.session) {
			for _, w := range devices.LookAt(&st.own.runs, 10, false).Waits {
				if w.Node.Op == op {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no step ever waits for %s", op)
		}
		runtime.Gosched()
	}
}

// A context that is not used for its time ends, with all that it holds.
func TestEagerKeepAlive(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1, KeepAlive: 1})
	kept := newEager(t, n, EagerSpec{ID: 2})
	<-c.session.gone
	for n.task.eager.context(1) != nil {
		runtime.Gosched()
	}
	_, err := n.task.EagerContext(1, 0)
	wantError(t, err, status.Aborted, "Unable to find a context_id")
	if _, err := n.task.EagerContext(2, 0); err != nil {
		t.Error(err)
	}
	kept.send(1, 1)
}
