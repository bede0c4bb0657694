package actors

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

const peerCPU = eagerPeer + "/device:CPU:0"

// edge returns the attributes of a send or receive.
func edge(from string, incarnation uint64, to, name string) string {
	return attr("send_device", fmt.Sprintf("s: %q", from)) + attr("send_device_incarnation", fmt.Sprint("i: ", int64(incarnation))) +
		attr("recv_device", fmt.Sprintf("s: %q", to)) + attr("tensor_name", fmt.Sprintf("s: %q", name))
}

// incarnation returns that of the task's CPU.
func (c *eagerClient) incarnation() uint64 { return c.Devices(nil)[0].GetIncarnation() }

// outbound returns the attributes of a send to the client, and its key.
func (c *eagerClient) outbound(name string) (attrs, key string) {
	return edge(eagerCPU, c.incarnation(), peerCPU, name) + attr("T", "type: DT_FLOAT"), c.key(name)
}

func (c *eagerClient) key(name string) string {
	return fmt.Sprintf("%s;%016x;%s;%s;0:0", eagerCPU, c.incarnation(), peerCPU, name)
}

// received is a result of EagerRecv.
type received struct {
	t    *tensor.Tensor
	dead bool
	err  error
}

// fetch calls EagerRecv and returns once it waits, or has ended.
func (n *node) fetch(ctx context.Context, step int64, key string) <-chan received {
	out := make(chan received, 1)
	before := n.task.eager.receives()
	go func() {
		t, dead, err := n.task.EagerRecv(ctx, EagerPeer{}, step, key)
		out <- received{t, dead, err}
	}()
	for n.task.eager.receives() == before && len(out) == 0 {
	}
	return out
}

// receives returns how many receivers wait in all steps.
func (e *eagerTable) receives() (count int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.steps {
		s.mu.Lock()
		for _, all := range s.waiting {
			count += len(all)
		}
		s.mu.Unlock()
	}
	return count
}

func (r received) want(t testing.TB, values ...float32) {
	t.Helper()
	if r.err != nil || r.dead {
		t.Fatal(r.dead, r.err)
	}
	defer r.t.Release()
	wantValues(t, r.t, values...)
}

func TestEagerRecv(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	const id = 1 << 63 // negative as a step
	c := newEager(t, n, EagerSpec{ID: id})
	step := int64(-1 << 63)
	c.send(1, 1, 2)
	c.send(2, 3, 4)
	attrs, key := c.outbound("x")
	t.Run("after the send", func(t *testing.T) {
		for range 2 { // a key may be used again
			c.run(op(3, "_Send", attrs, "1:0"))
			(<-n.fetch(t.Context(), step, key)).want(t, 1, 2)
		}
	})
	t.Run("before the send", func(t *testing.T) {
		first, second := n.fetch(t.Context(), step, key), n.fetch(t.Context(), step, key)
		c.run(op(3, "_Send", attrs, "1:0"))
		c.run(op(3, "_Send", attrs, "2:0"))
		(<-first).want(t, 1, 2)
		(<-second).want(t, 3, 4)
	})
	t.Run("a cancelled one leaves the context alone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		waiting := n.fetch(ctx, step, key)
		cancel()
		wantError(t, (<-waiting).err, status.Cancelled)
		c.run(op(3, "_Send", attrs, "1:0"))
		(<-n.fetch(t.Context(), step, key)).want(t, 1, 2)
	})
	t.Run("here", func(t *testing.T) {
		here := edge(eagerCPU, c.incarnation(), eagerCPU, "y")
		c.run(op(3, "_Send", here, "1:0"))
		c.run(op(4, "_Recv", here+attr("tensor_type", "type: DT_FLOAT")))
		c.want("4:0", 1, 2)
		c.run(op(3, "_Send", here, "1:0"))
		_, err := c.Run(t.Context(), op(4, "_Recv", here+attr("tensor_type", "type: DT_INT32")))
		wantError(t, err, status.InvalidArgument, "float", "int32")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Run(ctx, op(4, "_Recv", here+attr("tensor_type", "type: DT_FLOAT")))
		wantError(t, err, status.Cancelled)
	})
	for _, q := range []struct {
		key  string
		code status.Code
		text string
	}{
		{fmt.Sprintf("%s;%016x;%s;x;0:0", eagerCPU, 12345, peerCPU), status.Aborted,
			fmt.Sprintf("RecvTensor expects a different device incarnation: 12345 vs. %d. Your worker job (%q) was probably restarted.", c.incarnation(), n.name)},
		{fmt.Sprintf("/job:zzz/replica:0/task:0/device:CPU:0;%016x;%s;x;0:0", c.incarnation(), peerCPU), status.InvalidArgument, "Invalid rendezvous key (src): /job:zzz"},
		{fmt.Sprintf("%s/device:CPU:5;%016x;%s;x;0:0", eagerTask, c.incarnation(), peerCPU), status.InvalidArgument, "/device:CPU:5 unknown device."},
		{"nonsense", status.InvalidArgument, "Invalid  rendezvous key: nonsense"},
		{"a;b;c;d;e", status.InvalidArgument, "Invalid  rendezvous key: a;b;c;d;e"},
	} {
		_, _, err := n.task.EagerRecv(t.Context(), EagerPeer{}, step, q.key)
		wantError(t, err, q.code, q.text)
	}
	waiting := n.fetch(t.Context(), step, key)
	c.run(op(3, "_Send", edge(eagerCPU, c.incarnation(), peerCPU, "never received"), "1:0"))
	c.close()
	wantError(t, (<-waiting).err, status.Cancelled, "closed")
}

// Receivers may come before their context.
func TestEagerRecvBeforeTheContext(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	probe := newEager(t, n, EagerSpec{ID: 1})
	good := n.fetch(t.Context(), 2, probe.key("x"))
	bad := n.fetch(t.Context(), 2, fmt.Sprintf("/job:zzz/task:0/device:CPU:0;%016x;%s;x;0:0", probe.incarnation(), peerCPU))
	c := newEager(t, n, EagerSpec{ID: 2})
	wantError(t, (<-bad).err, status.InvalidArgument, "Invalid rendezvous key (src)")
	attrs, _ := c.outbound("x")
	c.send(1, 1)
	c.run(op(2, "_Send", attrs, "1:0"))
	(<-good).want(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	never := n.fetch(ctx, 77, probe.key("x"))
	cancel()
	wantError(t, (<-never).err, status.Cancelled)
	if len(n.task.eager.steps) != 2 {
		t.Errorf("there are %d steps", len(n.task.eager.steps))
	}
}

// A call that has entered a step which has not begun, and does not wait in it yet, is not left behind when another call gives up.
func TestEagerRecvBesideOneThatGivesUp(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	probe := newEager(t, n, EagerSpec{ID: 1})
	e := &n.task.eager
	entered, err := e.enter(EagerPeer{}, 2, probe.key("x"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	other := n.fetch(ctx, 2, probe.key("y"))
	cancel()
	wantError(t, (<-other).err, status.Cancelled)
	if c := newEager(t, n, EagerSpec{ID: 2}); c.own != entered {
		t.Error("the context has another rendezvous than the one that the call waits in")
	}
	e.leave(entered, EagerPeer{}, probe.key("x"))
	never, err := e.enter(EagerPeer{}, 77, probe.key("x"))
	if err != nil {
		t.Fatal(err)
	}
	e.leave(never, EagerPeer{}, probe.key("x"))
	if len(e.steps) != 2 {
		t.Errorf("there are %d steps", len(e.steps))
	}
}

// A peer receives only from contexts that it may use, also if it came before them, and bothers no others.
func TestEagerPeers(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	c.registerComponent(unary("f_partitioned_0", "Neg", eagerCPU))
	c.send(1, 1)
	stranger := EagerPeer{Who: "a stranger", May: func(c *EagerContext) error {
		return status.Errorf(status.PermissionDenied, "context %d is somebody else's", c.ID())
	}}
	_, _, err := n.task.EagerRecv(t.Context(), stranger, 1, c.key("x"))
	wantError(t, err, status.PermissionDenied, "context 1")
	early := make(chan error, 1)
	go func() {
		_, _, err := n.task.EagerRecv(t.Context(), stranger, -5, c.key("x"))
		early <- err
	}()
	for n.task.eager.receives() == 0 {
		runtime.Gosched()
	}
	if _, err := c.RunComponent(t.Context(), part(-5, 2, "f_partitioned_0", []int32{0}, "1:0")); err != nil {
		t.Fatal(err)
	}
	wantError(t, <-early, status.PermissionDenied, "context 1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = n.task.EagerRecv(ctx, stranger, -6, c.key("x"))
	wantError(t, err, status.Cancelled)
	if _, err := c.RunComponent(t.Context(), part(-6, 2, "f_partitioned_0", []int32{0}, "1:0")); err != nil {
		t.Errorf("a stranger cancelled the step: %v", err)
	}
	n.task.eager.calls.of = map[string]int{"a stranger": maxPeerReceives}
	_, _, err = n.task.EagerRecv(t.Context(), stranger, -7, c.key("x"))
	wantError(t, err, status.ResourceExhausted, "a stranger on "+n.name+" has 8192 calls that wait for tensors")
	n.task.eager.calls.all = maxEagerReceives
	_, _, err = n.task.EagerRecv(t.Context(), EagerPeer{}, -7, c.key("x"))
	wantError(t, err, status.ResourceExhausted, n.name+" has 65536 calls that wait for tensors")
}

// A _Recv from another task fetches from its address.
func TestEagerPull(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 5, Peers: map[string]string{eagerPeer: "peer:1"}})
	inbound := edge(peerCPU, 7, eagerCPU, "z") + attr("tensor_type", "type: DT_FLOAT")
	_, err := c.Run(t.Context(), op(1, "_Recv", inbound))
	wantError(t, err, status.Unimplemented, peerCPU)
	var asked string
	n.task.Pull = func(_ context.Context, address string, step int64, key string) (*tensor.Tensor, bool, error) {
		asked = fmt.Sprint(address, " ", step, " ", key)
		v, err := tensor.FromValues([]float32{8, 9})
		return v, false, err
	}
	c.run(op(1, "_Recv", inbound))
	c.want("1:0", 8, 9)
	if want := "peer:1 5 " + peerCPU + ";0000000000000007;" + eagerCPU + ";z;0:0"; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	_, err = c.Run(t.Context(), op(1, "_Recv", edge("/job:ps/replica:0/task:0/device:CPU:0", 7, eagerCPU, "z")))
	wantError(t, err, status.NotFound, "/job:ps/replica:0/task:0", eagerPeer)
	n.task.Pull = func(context.Context, string, int64, string) (*tensor.Tensor, bool, error) {
		return nil, false, status.Errorf(status.Unavailable, "failed to connect to all addresses")
	}
	_, err = c.Run(t.Context(), op(1, "_Recv", inbound))
	wantError(t, err, status.Unavailable, "failed to connect to all addresses")
	n.task.Pull = func(context.Context, string, int64, string) (*tensor.Tensor, bool, error) { return nil, true, nil }
	_, err = c.Run(t.Context(), op(1, "_Recv", inbound))
	wantError(t, err, status.InvalidArgument, "dead")
	started := make(chan struct{})
	n.task.Pull = func(ctx context.Context, _ string, _ int64, _ string) (*tensor.Tensor, bool, error) {
		close(started)
		<-ctx.Done()
		return nil, false, status.From(ctx.Err())
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), op(1, "_Recv", inbound))
		ended <- err
	}()
	<-started
	c.close()
	wantError(t, <-ended, status.Cancelled)
}

// component is a function whose part here adds what comes from the peer to its argument, and sends and returns the sum.
func (c *eagerClient) component(name string) string {
	return fmt.Sprintf(`
	signature { name: %q input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } is_stateful: true control_output: "send" }
	node_def { name: "recv" op: "_Recv" device: %[2]q attr { key: "tensor_type" value { type: DT_FLOAT } } %[3]s }
	node_def { name: "call" op: "helper" input: "x" input: "recv:tensor:0" }
	node_def { name: "send" op: "_Send" input: "call:y:0" device: %[2]q attr { key: "T" value { type: DT_FLOAT } } %[4]s }
	ret { key: "y" value: "call:y:0" }
	control_ret { key: "send" value: "send" }
`, name, eagerCPU, nodeAttrs(edge(peerCPU, 7, eagerCPU, "in")), nodeAttrs(edge(eagerCPU, c.incarnation(), peerCPU, "out")))
}

// nodeAttrs returns attributes as those of a node.
func nodeAttrs(attrs string) string { return strings.ReplaceAll(attrs, "attrs {", "attr {") }

const helper = `
	signature { name: "helper" input_arg { name: "a" type: DT_FLOAT } input_arg { name: "b" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
	node_def { name: "add" op: "AddV2" input: "a" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
	ret { key: "y" value: "add:z:0" }
`

func (c *eagerClient) registerComponent(text string) {
	c.t.Helper()
	library := &functionpb.FunctionDefLibrary{Function: []*functionpb.FunctionDef{functionDef(c.t, helper)}}
	if err := c.Register(&corepb.RegisterFunctionOp{FunctionDef: functionDef(c.t, text), IsComponentFunction: true, Library: library}); err != nil {
		c.t.Fatal(err)
	}
}

// part returns the request that runs a component.
func part(step, id int64, name string, outputs []int32, inputs ...string) *corepb.RunComponentFunctionRequest {
	o := op(id, name, "", inputs...)
	o.IsFunction, o.IsComponentFunction, o.FuncStepId = true, true, step
	return &corepb.RunComponentFunctionRequest{Operation: o, OutputNum: outputs}
}

func TestEagerComponents(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	sent := make(chan float32, 10)
	n.task.Pull = func(ctx context.Context, _ string, step int64, _ string) (*tensor.Tensor, bool, error) {
		select {
		case x := <-sent:
			v, err := tensor.FromValues([]float32{x, x})
			return v, false, err
		case <-ctx.Done():
			return nil, false, status.From(ctx.Err())
		}
	}
	c := newEager(t, n, EagerSpec{ID: 1, Peers: map[string]string{eagerPeer: "peer:1"}})
	c.send(1, 1, 2)
	c.registerComponent(c.component("f_partitioned_0"))
	t.Run("a step", func(t *testing.T) {
		before := n.fetch(t.Context(), -5, c.key("out")) // which comes first
		sent <- 10
		r, err := c.RunComponent(t.Context(), part(-5, 70, "f_partitioned_0", []int32{3}, "1:0"))
		if err != nil || len(r.Shape) != 1 {
			t.Fatal(r, err)
		}
		(<-before).want(t, 11, 12)
		c.want("70:3", 11, 12)
		_, err = c.Run(t.Context(), op(71, "Neg", "", "70:0"))
		wantError(t, err, status.InvalidArgument, "Op ID: 70, Output num: 0")
		c.Cleanup(-5)
	})
	t.Run("tensors", func(t *testing.T) {
		sent <- 20
		p, err := c.RunComponent(t.Context(), part(-6, -1, "f_partitioned_0", nil, "1:0"))
		if err != nil || len(p.Tensor) != 1 || len(p.Shape) != 0 {
			t.Fatal(p, err)
		}
		late := n.fetch(t.Context(), -6, c.key("out"))
		(<-late).want(t, 21, 22)
		waiting := n.fetch(t.Context(), -6, c.key("out"))
		c.Cleanup(-6)
		wantError(t, (<-waiting).err, status.Aborted, "Cleanup -6")
		c.Cleanup(-6)
	})
	t.Run("not received", func(t *testing.T) {
		sent <- 30
		if _, err := c.RunComponent(t.Context(), part(-7, 72, "f_partitioned_0", []int32{0}, "1:0")); err != nil {
			t.Fatal(err)
		}
		c.Cleanup(-7)
	})
	t.Run("a cancelled receiver", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		waiting := n.fetch(ctx, -8, c.key("out"))
		cancel()
		wantError(t, (<-waiting).err, status.Cancelled)
		_, err := c.RunComponent(t.Context(), part(-8, 73, "f_partitioned_0", []int32{0}, "1:0"))
		wantError(t, err, status.Aborted, "Step -8 cancelled.  Cancelling rendezvous.")
	})
	t.Run("a cancelled run", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.RunComponent(ctx, part(-9, 74, "f_partitioned_0", []int32{0}, "1:0"))
			ended <- err
		}()
		c.waitsFor("_Recv")
		cancel()
		wantError(t, <-ended, status.Cancelled)
		c.Cleanup(-9)
	})
	t.Run("refused", func(t *testing.T) {
		_, err := c.RunComponent(t.Context(), part(-10, 75, "nobody", nil))
		wantError(t, err, status.NotFound, "'nobody' is neither a type of a primitive operation")
		_, err = c.RunComponent(t.Context(), part(-10, 75, "f_partitioned_0", []int32{0}, "1:0")) // another part of the function that has failed
		wantError(t, err, status.NotFound, "'nobody' is neither a type of a primitive operation")
		sent <- 40
		_, err = c.RunComponent(t.Context(), part(-11, 75, "f_partitioned_0", nil, "1:0"))
		wantError(t, err, status.InvalidArgument, "1 outputs", "0 output numbers")
		sent <- 50
		if _, err = c.RunComponent(t.Context(), part(-12, 75, "f_partitioned_0", []int32{0}, "1:0")); err != nil {
			t.Fatal(err)
		}
		other := newEager(t, n, EagerSpec{ID: 2})
		other.registerComponent(c.component("f_partitioned_0"))
		other.send(1, 1, 2)
		_, err = other.RunComponent(t.Context(), part(-12, 75, "f_partitioned_0", nil, "1:0"))
		wantError(t, err, status.InvalidArgument, "Step -12 is one of another eager context")
		other.Cleanup(-12) // another context's
		_, err = c.RunComponent(t.Context(), &corepb.RunComponentFunctionRequest{Operation: op(1, "Neg", "", "1:0")})
		wantError(t, err, status.InvalidArgument, "component")
	})
	c.close()
	if steps := len(n.task.eager.steps); steps != 1 { // that of the other context
		t.Errorf("%d steps are left", steps)
	}
}

// Many steps at once, each with a receiver that comes before or after it.
func TestEagerComponentsAtOnce(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	n.task.Pull = func(_ context.Context, _ string, step int64, _ string) (*tensor.Tensor, bool, error) {
		v, err := tensor.FromValues([]float32{float32(-step), 0})
		return v, false, err
	}
	c := newEager(t, n, EagerSpec{ID: 1, Peers: map[string]string{eagerPeer: "peer:1"}})
	c.send(1, 1, 2)
	c.registerComponent(c.component("f_partitioned_0"))
	key := c.key("out")
	var all sync.WaitGroup
	for i := range int64(50) {
		step := -i - 1
		all.Go(func() {
			if _, err := c.RunComponent(t.Context(), part(step, 100+i, "f_partitioned_0", []int32{0}, "1:0")); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			v, _, err := n.task.EagerRecv(t.Context(), EagerPeer{}, step, key)
			if err != nil {
				t.Error(err)
				return
			}
			defer v.Release()
			wantValues(t, v, float32(i+2), 2)
			c.Cleanup(step)
		})
	}
	all.Wait()
}
