package actors

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// newEagerAs creates a context with rights.
func newEagerAs(t testing.TB, n *node, rights Rights, spec EagerSpec) *eagerClient {
	t.Helper()
	spec.Task = eagerTask
	c, err := n.task.CreateEagerContext(t.Context(), 0, rights, spec)
	if err != nil {
		t.Fatal(err)
	}
	return &eagerClient{c, t, n}
}

// recursive is a function that calls itself.
const recursive = `
	signature { name: "recursive" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
	node_def { name: "again" op: "recursive" input: "x" }
	ret { key: "y" value: "again:y:0" }
`

func TestEagerLimits(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	c.send(1, 1, 2)
	t.Run("handles", func(t *testing.T) {
		one := c.handles.tensors[handleKey{1, 0}]
		for i := range int64(maxHandles - c.handles.count()) {
			c.handles.tensors[handleKey{100 + i, 0}] = one.Retain()
		}
		_, err := c.Run(t.Context(), op(2, "Neg", "", "1:0"))
		wantError(t, err, status.ResourceExhausted, "Eager context 1 has 1048576 handles, its limit")
		if err := c.Decref(handle("100:0")); err != nil {
			t.Fatal(err)
		}
		c.run(op(2, "Neg", "", "1:0"))
		for i := range int64(maxHandles) {
			c.handles.remove(handleKey{100 + i, 0})
		}
	})
	t.Run("functions", func(t *testing.T) {
		c.register(recursive)
		_, err := c.Run(t.Context(), call(3, "recursive", "1:0"))
		wantError(t, err, status.ResourceExhausted, "recursive", "nested more than")
		for i := range maxFunctions {
			c.library.byName[fmt.Sprint(i)] = c.library.byName["recursive"]
			if len(c.library.byName) == maxFunctions {
				break
			}
		}
		err = c.Register(&corepb.RegisterFunctionOp{FunctionDef: functionDef(t, double)})
		wantError(t, err, status.ResourceExhausted, "Eager context 1 has 65536 functions, its limit")
		maps.DeleteFunc(c.library.byName, func(name string, _ *eagerFunction) bool { return name != "recursive" })
	})
	t.Run("instances", func(t *testing.T) {
		for i := range int64(maxPlans + 20) {
			c.run(op(2, "Neg", attr("_number", fmt.Sprint("i: ", i)), "1:0"))
		}
		if have := c.session.plans.Load().count(); have > maxPlans {
			t.Errorf("%d instances are kept", have)
		}
	})
	t.Run("sent tensors", func(t *testing.T) {
		attrs, _ := c.outbound("x")
		send := op(3, "_Send", attrs, "1:0")
		for range maxSent {
			c.run(send)
		}
		_, err := c.Run(t.Context(), send)
		wantError(t, err, status.ResourceExhausted, "65536 sent tensors that were not received")
	})
}

// TestEagerStepsOfClients checks that steps of components are bounded for each client, however many contexts it has, and for all; that steps
// that are only waited for take none of that; and that what has ended makes room.
func TestEagerStepsOfClients(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	id, step := uint64(0), int64(0)
	open := func(owner string) *eagerClient {
		id++
		rights := everything
		rights.Owner = owner
		return newEagerAs(t, n, rights, EagerSpec{ID: id})
	}
	fill := func(c *eagerClient, steps int) {
		t.Helper()
		for range steps {
			step--
			if _, err := n.task.eager.begin(step, c.EagerContext); err != nil {
				t.Fatal(err)
			}
		}
	}
	waiting := EagerPeer{Who: "waits"}
	for i := range int64(maxPeerReceives) {
		if _, err := n.task.eager.enter(waiting, -1<<40-i, ""); err != nil {
			t.Fatal(err)
		}
	}
	alice, again := open("client:alice"), open("client:alice")
	fill(alice, maxClientSteps/2)
	fill(again, maxClientSteps/2)
	_, err := n.task.eager.begin(step-1, alice.EagerContext)
	wantError(t, err, status.ResourceExhausted, "client:alice on "+n.name+" has 2048 steps of functions over several tasks")
	again.Close(0)
	_, err = n.task.eager.begin(step-1, again.EagerContext)
	wantError(t, err, status.Aborted, "Unable to find a context_id")
	fill(alice, maxClientSteps/2)
	alice.Cleanup(step)
	fill(alice, 1)
	for i := 1; i < maxEagerSteps/maxClientSteps; i++ {
		fill(open(""), maxClientSteps) // a client without a name: each context is one
	}
	_, err = n.task.eager.begin(step-1, open("client:bob").EagerContext)
	wantError(t, err, status.ResourceExhausted, n.name+" has 16384 steps of functions over several tasks")
	alice.Close(0)
	fill(open("client:bob"), 1)
	if e := &n.task.eager; e.begun != maxEagerSteps-maxClientSteps+1 || len(e.clients) != maxEagerSteps/maxClientSteps {
		t.Errorf("%d steps of %d clients are counted", e.begun, len(e.clients))
	}
}

// TestLongFunctionsAreNotPrinted checks that the error for another function of the same name takes little memory, however large the functions are:
// nobody counts it.
func TestLongFunctionsAreNotPrinted(t *testing.T) {
	net := newNetwork(t, "a")
	c := newEager(t, net.node(taskName("a")), EagerSpec{ID: 1})
	long := functionDef(t, double)
	for i := range 1 << 15 {
		long.NodeDef = append(long.NodeDef, &nodepb.NodeDef{Name: fmt.Sprint("n", i), Op: "NoOp", Device: strings.Repeat("d", 100)})
	}
	if err := c.Register(&corepb.RegisterFunctionOp{FunctionDef: long}); err != nil {
		t.Fatal(err)
	}
	short := functionDef(t, double)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := c.Register(&corepb.RegisterFunctionOp{FunctionDef: short})
	runtime.ReadMemStats(&after)
	wantError(t, err, status.InvalidArgument, "duplicate function with name: double", "a tensorflow.FunctionDef of", "node_def")
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("the error took %d bytes", took)
	}
}

// What a client makes counts as its session's memory and its steps'.
func TestEagerMemoryLimits(t *testing.T) {
	net := newNetwork(t, "a")
	rights := everything
	rights.StepBytes, rights.SessionBytes = 1<<20, 4<<20
	c := newEagerAs(t, net.node(taskName("a")), rights, EagerSpec{ID: 1})
	dims, err := tensor.FromValues([]int32{1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c.sendTensor(1, dims)
	c.sendTensor(2, tensor.FromScalar[float32](1))
	_, err = c.Run(t.Context(), op(3, "Fill", "", "1:0", "2:0"))
	wantError(t, err, status.ResourceExhausted, "step_bytes")
	if dims, err = tensor.FromValues([]int32{1 << 17}); err != nil { // half a megabyte
		t.Fatal(err)
	}
	c.sendTensor(1, dims)
	kept := int64(0)
	for ; kept < 100 && err == nil; kept++ {
		_, err = c.Run(t.Context(), op(10+kept, "Fill", "", "1:0", "2:0"))
	}
	wantError(t, err, status.ResourceExhausted, "session_bytes")
	if kept < 7 || kept > 9 {
		t.Errorf("%d outputs were kept", kept)
	}
	long := functionDef(t, double)
	long.Signature.Description = string(make([]byte, 1<<20))
	wantError(t, c.Register(&corepb.RegisterFunctionOp{FunctionDef: long}), status.ResourceExhausted, "session_bytes")
	for i := range kept - 1 {
		if err := c.Decref(handle(fmt.Sprintf("%d:0", 10+i))); err != nil {
			t.Fatal(err)
		}
	}
	c.run(op(10, "Fill", "", "1:0", "2:0"))
	if err := c.Register(&corepb.RegisterFunctionOp{FunctionDef: long}); err != nil {
		t.Error(err)
	}
}

// heap returns the bytes that the program holds.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Memory stays as it is over many ops, and over many functions that are registered, called and removed.
func TestEagerMemoryIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("runs 100,000 ops")
	}
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	c.send(1, 1, 2)
	add := op(2, "AddV2", "", "1:0", "1:0")
	ops := func(count int) {
		for range count {
			c.run(add)
			if err := c.Decref(handle("2:0")); err != nil {
				t.Fatal(err)
			}
		}
	}
	functions := func(count int) {
		for i := range count {
			name := fmt.Sprintf("__inference_f_%d", i)
			c.register(unary(name, "Neg", eagerCPU))
			if i%10 == 0 {
				c.run(call(3, name, "1:0"))
			}
			if err := c.RemoveFunction(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	ops(1000)
	functions(1000)
	used, before := n.device.Pool().Stats().InUse, heap()
	ops(100_000)
	functions(10_000)
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	// An instance goes a moment after its function.
	if now := n.device.Pool().Stats().InUse; now > used+8<<10 {
		t.Errorf("%d bytes of tensors and instances are in use, %d before", now, used)
	}
	if plans, functions := c.session.plans.Load().count(), c.library.count(); plans > 1 || functions > 0 {
		t.Errorf("%d instances and %d functions are left", plans, functions)
	}
}

// TestLongKeysAreCounted checks that the keys of tensors that wait to be fetched count as memory of their context until they are, and those of
// calls that wait for tensors as their caller's.
func TestLongKeysAreCounted(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEagerAs(t, n, Rights{SessionBytes: 1 << 20}, EagerSpec{ID: 1})
	c.send(1, 1, 2)
	before := c.session.worker.memory.InUse()
	long := func(i int) string { return fmt.Sprint(strings.Repeat("k", 100<<10), i) }
	send := func(i int) error {
		attrs, _ := c.outbound(long(i))
		_, err := c.Run(t.Context(), op(-1, "_Send", attrs, "1:0"))
		return err
	}
	for i := range 10 {
		if err := send(i); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, send(10), status.ResourceExhausted, "the session may hold 1048576 bytes")
	for i := range 5 {
		if got := <-n.fetch(t.Context(), 1, c.key(long(i))); got.err != nil {
			t.Fatal(got.err)
		} else {
			got.t.Release()
		}
	}
	if err := send(10); err != nil {
		t.Error(err)
	}
	c.close()
	if got := c.session.worker.memory.InUse(); got > before {
		t.Errorf("%d bytes are in use after the context has ended, %d before the keys", got, before)
	}

	alice := EagerPeer{Who: "alice"}
	for i := range maxPeerKeys/len(long(0)) + 1 {
		s, err := n.task.eager.enter(alice, int64(-i), long(i))
		if err == nil {
			defer n.task.eager.leave(s, alice, long(i))
		} else if i*len(long(0)) < maxPeerKeys/2 {
			t.Fatal(err)
		} else {
			wantError(t, err, status.ResourceExhausted, "alice on "+n.name, "bytes of keys of calls that wait for tensors")
		}
	}
	if e := &n.task.eager; e.calls.all != e.keys.all/len(long(10)) {
		t.Errorf("%d calls are counted with %d bytes", e.calls.all, e.keys.all)
	}
}
