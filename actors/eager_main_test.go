package actors

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	devpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/encoding/protowire"
)

// The cluster of the tests' client: the main, eagerTask, is worker 3.
const (
	psTask  = "/job:ps/replica:0/task:0"
	psCPU   = psTask + "/device:CPU:0"
	ps1Task = "/job:ps/replica:0/task:1"
	ps1CPU  = ps1Task + "/device:CPU:0"
)

// eagerCalls is the EagerService of a client's tasks, by address, without a network.
type eagerCalls struct {
	t  testing.TB
	of map[string]*eagerClient

	mu      sync.Mutex
	fail    func(ctx context.Context, item *corepb.QueueItem) error // nil, or the error of an item or, for a nil item, of a RunComponent
	lose    func(ctx context.Context) error                         // nil, or the error of a RunComponent whose answer is lost
	changed *sync.Cond
	items   []string // executed, as "address kind"
}

// failing sets what makes calls fail; nil is nothing.
func (e *eagerCalls) failing(f func(ctx context.Context, item *corepb.QueueItem) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = f
}

// fails returns the error of a call.
func (e *eagerCalls) fails(ctx context.Context, item *corepb.QueueItem) error {
	e.mu.Lock()
	fail := e.fail
	e.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(ctx, item)
}

func (e *eagerCalls) note(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.items = append(e.items, text)
	e.changed.Broadcast()
}

// wait waits until n items of a kind have been executed at an address.
func (e *eagerCalls) wait(text string, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.countLocked(text) < n {
		e.changed.Wait()
	}
}

func (e *eagerCalls) countLocked(text string) (n int) {
	for _, have := range e.items {
		if have == text {
			n++
		}
	}
	return n
}

func (e *eagerCalls) count(text string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.countLocked(text)
}

func (e *eagerCalls) Enqueue(ctx context.Context, address, target string, q *corepb.EnqueueRequest) error {
	c := e.of[address]
	if c == nil || !strings.HasPrefix(target, c.names.client+"/device:") || q.GetContextId() != c.id {
		e.t.Errorf("%s was called for %s in context %d", address, target, q.GetContextId())
	}
	item := q.Queue[0]
	if err := e.fails(ctx, item); err != nil {
		return err
	}
	switch of := item.GetItem().(type) {
	case *corepb.QueueItem_RegisterFunction:
		defer e.note(address + " register")
		if !of.RegisterFunction.GetIsComponentFunction() {
			e.t.Error("the function is not registered as a component")
		}
		return c.Register(of.RegisterFunction)
	case *corepb.QueueItem_CleanupFunction:
		defer e.note(address + " cleanup")
		c.Cleanup(of.CleanupFunction.GetStepId())
		return nil
	case *corepb.QueueItem_HandleToDecref:
		defer e.note(address + " decref")
		return c.Decref(of.HandleToDecref)
	}
	num, _, n := protowire.ConsumeField(item.ProtoReflect().GetUnknown())
	if num != 8 || n < 0 {
		e.t.Errorf("the item %v is unknown", item)
		return nil
	}
	defer e.note(address + " remove")
	b := item.ProtoReflect().GetUnknown()
	b, _ = protowire.ConsumeBytes(b[1:])
	name, _ := protowire.ConsumeBytes(b[1:])
	return c.RemoveFunction(string(name))
}

func (e *eagerCalls) KeepAlive(ctx context.Context, address, _ string, id uint64) error {
	if err := e.fails(ctx, nil); err != nil {
		return err
	}
	_, err := e.of[address].node.task.EagerContext(id, 0)
	return err
}

func (e *eagerCalls) RunComponent(ctx context.Context, address, target string, q *corepb.RunComponentFunctionRequest) (*corepb.RunComponentFunctionResponse, error) {
	defer e.note(address + " run")
	if target != q.GetOperation().GetDevice() {
		e.t.Errorf("the component is for %s, but its call for %s", q.GetOperation().GetDevice(), target)
	}
	if err := e.fails(ctx, nil); err != nil {
		return nil, err
	}
	a, err := e.of[address].RunComponent(ctx, q)
	e.mu.Lock()
	lose := e.lose
	e.mu.Unlock()
	if err == nil && lose != nil {
		return nil, lose(ctx)
	}
	return a, err
}

// spreadCluster makes a client with a context on a worker and on two parameter servers.
func spreadCluster(t *testing.T) (main, ps, ps1 *eagerClient, calls *eagerCalls) {
	t.Helper()
	return clusterOf(t, eagerTask, psTask, ps1Task)
}

// clusterOf makes a client with contexts on three tasks, which it calls by the given names and which call themselves taskName a, b and c.
func clusterOf(t *testing.T, mainTask, psTask, ps1Task string) (main, ps, ps1 *eagerClient, calls *eagerCalls) {
	t.Helper()
	net := newNetwork(t, "a", "b", "c")
	calls = &eagerCalls{t: t, of: map[string]*eagerClient{}}
	calls.changed = sync.NewCond(&calls.mu)
	nodes := map[string]*node{mainTask: net.node(taskName("a")), psTask: net.node(taskName("b")), ps1Task: net.node(taskName("c"))}
	spec := EagerSpec{ID: 7, Peers: map[string]string{}}
	for task, n := range nodes {
		spec.Peers[task] = "at " + task
		for _, d := range n.task.Describe() {
			p := d.Proto()
			p.Name = task + p.Name[strings.Index(p.Name, "/device:"):]
			spec.Devices = append(spec.Devices, p)
		}
	}
	slices.SortFunc(spec.Devices, func(a, b *devpb.DeviceAttributes) int { return strings.Compare(a.Name, b.Name) })
	for task, n := range nodes {
		n.task.EagerService = calls
		n.task.Pull = func(ctx context.Context, address string, step int64, key string) (*tensor.Tensor, bool, error) {
			return calls.of[address].node.task.EagerRecv(ctx, EagerPeer{Who: task}, step, key)
		}
		spec.Task = task
		calls.of[spec.Peers[task]] = newEager(t, n, spec)
	}
	return calls.of["at "+mainTask], calls.of["at "+psTask], calls.of["at "+ps1Task], calls
}

// variable makes a variable on a task, whose handle is id:0.
func (c *eagerClient) variable(id int64, device, name string, values ...float32) {
	c.t.Helper()
	c.run(on(device, op(id, "VarHandleOp", scalarFloat+attr("shared_name", fmt.Sprintf("s: %q", name)))))
	v, err := tensor.FromValues(values)
	if err != nil {
		c.t.Fatal(err)
	}
	defer v.Release()
	p, err := v.Proto()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.SendTensor(&corepb.SendTensorOp{OpId: id + 1, Tensors: []*tensorProto{p}, DeviceName: device}); err != nil {
		c.t.Fatal(err)
	}
	assign := on(device, op(id+2, "AssignVariableOp", "", fmt.Sprintf("%d:0", id), fmt.Sprintf("%d:0", id+1)))
	c.run(assign)
}

// readVariable checks a variable.
func (c *eagerClient) readVariable(id int64, device string, variable int64, want ...float32) {
	c.t.Helper()
	c.run(on(device, op(id, "ReadVariableOp", attr("dtype", "type: DT_FLOAT"), fmt.Sprintf("%d:0", variable))))
	c.want(fmt.Sprintf("%d:0", id), want...)
}

// away makes input i of an op one that lies on a device of another task.
func away(o *corepb.Operation, i int, device string, dtype typespb.DataType) *corepb.Operation {
	h := o.OpInputs[i].GetRemoteHandle()
	h.Device, h.Dtype = device, dtype
	return o
}

// train reads a variable, multiplies by x, and subtracts the product from the variable. Nothing depends on the subtraction.
const train = `
	signature { name: "__inference_train_9" input_arg { name: "v" type: DT_RESOURCE } input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT }
		is_stateful: true control_output: "sub" }
	node_def { name: "read" op: "ReadVariableOp" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
	node_def { name: "mul" op: "Mul" input: "read:value:0" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
	node_def { name: "sub" op: "AssignSubVariableOp" input: "v" input: "mul:z:0" input: "^read" attr { key: "dtype" value { type: DT_FLOAT } } }
	ret { key: "y" value: "mul:z:0" }
	control_ret { key: "sub" value: "sub" }
`

func TestEagerMain(t *testing.T) {
	main, ps, ps1, calls := spreadCluster(t)
	ps.variable(10, psCPU, "v", 1, 2)
	main.send(20, 10, 100)
	main.register(train)
	step := func(id int64) *corepb.Operation {
		return away(call(id, "__inference_train_9", "10:0", "20:0"), 0, psCPU, typespb.DataType_DT_RESOURCE)
	}
	r := main.run(step(30))
	if len(r.Shape) != 1 || r.Shape[0].Dim[0].Size != 2 || len(r.Device) != 1 || r.Device[0] != "" {
		t.Errorf("the response is %v", r)
	}
	main.want("30:0", 10, 200)
	ps.readVariable(31, psCPU, 10, -9, -198)
	main.run(step(32))
	main.want("32:0", -90, -19800)
	calls.wait("at "+psTask+" cleanup", 2)
	if n := calls.count("at " + psTask + " register"); n != 1 {
		t.Errorf("the component was registered %d times", n)
	}
	t.Run("outputs elsewhere", func(t *testing.T) {
		main.register(`
			signature { name: "two" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "here" type: DT_FLOAT } output_arg { name: "there" type: DT_FLOAT } }
			node_def { name: "neg" op: "Neg" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
			node_def { name: "square" op: "Square" input: "neg:y:0" device: "/job:ps/task:1" attr { key: "T" value { type: DT_FLOAT } } }
			ret { key: "here" value: "neg:y:0" } ret { key: "there" value: "square:y:0" }`)
		r := main.run(call(40, "two", "20:0"))
		if len(r.Shape) != 2 || r.Shape[1].Dim[0].Size != 2 || fmt.Sprint(r.Device) != "[ "+ps1CPU+"]" {
			t.Errorf("the response is %v", r)
		}
		main.want("40:0", -10, -100)
		ps1.want("40:1", 100, 10000)
		// An input that lies elsewhere.
		main.register(unary("negate", "Neg", ""))
		main.run(away(call(41, "negate", "40:1"), 0, ps1CPU, typespb.DataType_DT_FLOAT))
		main.want("41:0", -100, -10000)
		// All outputs are the answer.
		r = main.run(call(-1, "two", "20:0"))
		if len(r.Tensor) != 2 || len(r.Shape) != 0 {
			t.Errorf("the response is %v", r)
		}
	})
	t.Run("arguments as results", func(t *testing.T) {
		main.register(`
			signature { name: "pass" input_arg { name: "x" type: DT_FLOAT } input_arg { name: "y" type: DT_FLOAT }
				output_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } output_arg { name: "c" type: DT_FLOAT } output_arg { name: "d" type: DT_FLOAT } }
			node_def { name: "neg" op: "Neg" input: "y" attr { key: "T" value { type: DT_FLOAT } } }
			node_def { name: "one" op: "Identity" input: "y" attr { key: "T" value { type: DT_FLOAT } } }
			node_def { name: "two" op: "Identity" input: "one:output:0" input: "^neg" attr { key: "T" value { type: DT_FLOAT } } }
			ret { key: "a" value: "two:output:0" } ret { key: "b" value: "x" } ret { key: "c" value: "neg:y:0" } ret { key: "d" value: "y" }`)
		r := main.run(away(call(45, "pass", "20:0", "40:1"), 1, ps1CPU, typespb.DataType_DT_FLOAT))
		if want := fmt.Sprint([]string{ps1CPU, "", "", ps1CPU}); fmt.Sprint(r.Device) != want {
			t.Errorf("the results are on %v", r.Device)
		}
		ps1.want("45:0", 100, 10000)
		main.want("45:1", 10, 100)
		main.want("45:2", -100, -10000)
		ps1.want("45:3", 100, 10000)
	})
	t.Run("loop", func(t *testing.T) {
		main.register(strings.ReplaceAll(small, "small", "small2"))
		main.register(`
			signature { name: "double2" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
			node_def { name: "add" op: "AddV2" input: "x" input: "x" device: "/job:ps/task:0/device:CPU:0" attr { key: "T" value { type: DT_FLOAT } } }
			ret { key: "y" value: "add:z:0" }`)
		main.register(strings.NewReplacer("__inference_loop_5", "loop2", `"small"`, `"small2"`, `"double"`, `"double2"`).Replace(loop))
		main.send(50, 1, 2)
		main.run(call(51, "loop2", "50:0"))
		main.want("51:0", 64, 128)
	})
	t.Run("loop with effects", func(t *testing.T) {
		main.register(`
			signature { name: "small3" input_arg { name: "x" type: DT_FLOAT } input_arg { name: "v" type: DT_RESOURCE } output_arg { name: "y" type: DT_BOOL } }
			node_def { name: "small" op: "small2" input: "x" } ret { key: "y" value: "small:y:0" }`)
		main.register(`
			signature { name: "double3" input_arg { name: "x" type: DT_FLOAT } input_arg { name: "v" type: DT_RESOURCE } is_stateful: true control_output: "count"
				output_arg { name: "y" type: DT_FLOAT } output_arg { name: "w" type: DT_RESOURCE } }
			node_def { name: "add" op: "AddV2" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
			node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 } } } }
			node_def { name: "count" op: "AssignAddVariableOp" input: "v" input: "one:output:0" attr { key: "dtype" value { type: DT_FLOAT } } }
			ret { key: "y" value: "add:z:0" } ret { key: "w" value: "v" } control_ret { key: "count" value: "count" }`)
		main.register(`
			signature { name: "loop3" input_arg { name: "x" type: DT_FLOAT } input_arg { name: "v" type: DT_RESOURCE } output_arg { name: "y" type: DT_FLOAT }
				is_stateful: true control_output: "while" }
			node_def { name: "while" op: "While" input: "x" input: "v" attr { key: "T" value { list { type: DT_FLOAT type: DT_RESOURCE } } }
				attr { key: "cond" value { func { name: "small3" } } } attr { key: "body" value { func { name: "double3" } } } attr { key: "_lower_using_switch_merge" value { b: true } } }
			ret { key: "y" value: "while:output:0" } control_ret { key: "while" value: "while" }`)
		ps.variable(53, psCPU, "counter", 0, 10)
		main.run(away(call(56, "loop3", "50:0", "53:0"), 1, psCPU, typespb.DataType_DT_RESOURCE))
		main.want("56:0", 64, 128)
		ps.readVariable(57, psCPU, 53, 6, 16)
	})
	t.Run("remove", func(t *testing.T) {
		if err := main.RemoveFunction("__inference_train_9"); err != nil {
			t.Fatal(err)
		}
		calls.wait("at "+psTask+" remove", 1)
		before := calls.count("at " + ps1Task + " remove")
		if err := main.Update(1, &EagerSpec{Peers: main.cluster.Load().peers, Devices: nil}); err != nil {
			t.Fatal(err)
		}
		calls.wait("at "+ps1Task+" remove", before+1)
		_, err := main.Run(t.Context(), call(60, "two", "20:0"))
		wantError(t, err, status.InvalidArgument, "/job:ps/task:1 unknown device.")
	})
	for _, c := range []*eagerClient{main, ps, ps1} {
		c.close()
	}
}

// TestWhyOfEagerMain checks that the reason why a function over several tasks waits is found in the part that another task runs.
func TestWhyOfEagerMain(t *testing.T) {
	main, ps, _, _ := spreadCluster(t)
	main.register(`
		signature { name: "take" output_arg { name: "x" type: DT_FLOAT } is_stateful: true }
		node_def { name: "q" op: "FIFOQueueV2" device: "/job:ps/task:0" attr { key: "component_types" value { list { type: DT_FLOAT } } } attr { key: "shared_name" value { s: "jobs" } } }
		node_def { name: "d" op: "QueueDequeueV2" input: "q:handle:0" device: "/job:ps/task:0" attr { key: "component_types" value { list { type: DT_FLOAT } } } }
		node_def { name: "neg" op: "Neg" input: "d:components:0" device: "` + eagerTask + `" attr { key: "T" value { type: DT_FLOAT } } }
		ret { key: "x" value: "neg:y:0" }`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := main.Run(ctx, call(30, "take"))
		ended <- err
	}()
	look := func() (c *view.Cluster, step uint64) {
		c = &view.Cluster{Clock: time.Now().UnixNano()}
		for _, of := range []*eagerClient{main, ps} {
			seen := of.node.task.Look(view.ForWhy())
			seen.Task, seen.State = of.node.task.Name(), view.StateUp
			c.Tasks = append(c.Tasks, seen)
		}
		waits := func(v *view.Task) bool { return len(v.Steps) == 1 && len(v.Steps[0].Waits) > 0 }
		if waits(c.Tasks[0]) && waits(c.Tasks[1]) {
			step = c.Tasks[0].Steps[0].Id
		}
		return c, step
	}
	var c *view.Cluster
	var step uint64
	until(t, "both parts wait", func() bool { c, step = look(); return step != 0 })
	why, ok := view.Why(c, step)
	if want := "to dequeue from the FIFOQueue 'jobs' on " + taskName("b"); !ok || !why.Blocked || !strings.Contains(why.Text, want) {
		t.Errorf("the step waits since %+v, want %q", why, want)
	}
	cancel()
	wantError(t, <-ended, status.Cancelled, "")
}

// A call that follows an update of the context uses no instance from before, though the session has not dropped it yet.
func TestEagerUpdateBesideABusySession(t *testing.T) {
	main, _, _, _ := spreadCluster(t)
	main.send(20, 10, 100)
	main.register(`
		signature { name: "there" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
		node_def { name: "square" op: "Square" input: "x" device: "/job:ps/task:1" attr { key: "T" value { type: DT_FLOAT } } }
		ret { key: "y" value: "square:y:0" }`)
	main.run(call(40, "there", "20:0"))
	busy := &blocked{Context: t.Context(), begun: make(chan struct{}), goOn: make(chan struct{})}
	ended := make(chan error, 1)
	go main.session.self.Send(&change{message: &wire.ForgetPlans{}, ctx: busy, reply: ended})
	<-busy.begun
	if err := main.Update(1, &EagerSpec{Peers: main.cluster.Load().peers}); err != nil {
		t.Fatal(err)
	}
	_, err := main.Run(t.Context(), call(41, "there", "20:0"))
	wantError(t, err, status.InvalidArgument, "/job:ps/task:1 unknown device.")
	close(busy.goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A call that follows the removal of a function uses no instance which calls that function, though the session has not dropped it yet.
func TestEagerRemovalBesideABusySession(t *testing.T) {
	c := newEager(t, newNetwork(t, "a").node(taskName("a")), EagerSpec{ID: 1})
	c.send(1, 1, 2)
	c.register(unary("inner", "Neg", ""))
	c.register(unary("outer", "inner", ""))
	c.run(call(2, "outer", "1:0"))
	c.want("2:0", -1, -2)
	busy := &blocked{Context: t.Context(), begun: make(chan struct{}), goOn: make(chan struct{})}
	ended := make(chan error, 1)
	go c.session.self.Send(&change{message: &wire.ForgetPlans{}, ctx: busy, reply: ended})
	<-busy.begun
	if err := c.RemoveFunction("inner"); err != nil {
		t.Fatal(err)
	}
	c.register(unary("inner", "Square", ""))
	for _, e := range *c.session.plans.Load() {
		if e.calls("inner") && c.session.claim(e.plan) {
			t.Error("a call may use an instance with the former body")
			e.local.release()
		}
	}
	close(busy.goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.run(call(3, "outer", "1:0"))
	c.want("3:0", 1, 4)
}

// blocked is the context of a change that keeps its session's actor busy.
type blocked struct {
	context.Context
	once        sync.Once
	begun, goOn chan struct{}
}

func (b *blocked) Err() error {
	b.once.Do(func() { close(b.begun) })
	<-b.goOn
	return b.Context.Err()
}

func TestEagerMainFailures(t *testing.T) {
	main, ps, ps1, calls := spreadCluster(t)
	ps.variable(10, psCPU, "v", 1, 2)
	main.send(20, 10, 100)
	main.send(21, 1, 2)
	main.register(train)
	step := func(input string) *corepb.Operation {
		return away(call(30, "__inference_train_9", "10:0", input), 0, psCPU, typespb.DataType_DT_RESOURCE)
	}
	lost := status.Errorf(status.Unavailable, "Socket closed")
	t.Run("registration", func(t *testing.T) {
		calls.failing(func(_ context.Context, item *corepb.QueueItem) error {
			if item.GetRegisterFunction() != nil {
				return lost
			}
			return nil
		})
		_, err := main.Run(t.Context(), step("20:0"))
		wantError(t, err, status.Unavailable, "Socket closed")
	})
	t.Run("component", func(t *testing.T) { // while the main's own part waits for the variable
		calls.failing(func(_ context.Context, item *corepb.QueueItem) error {
			if item == nil {
				return lost
			}
			return nil
		})
		_, err := main.Run(t.Context(), step("20:0"))
		wantError(t, err, status.Unavailable, "Socket closed")
	})
	calls.failing(nil)
	t.Run("own part", func(t *testing.T) { // while the component waits for the product
		main.sendTensor(22, three(t))
		_, err := main.Run(t.Context(), step("22:0"))
		wantError(t, err, status.InvalidArgument, "Incompatible shapes")
	})
	t.Run("kernel of a component", func(t *testing.T) {
		lostHandle := step("20:0")
		lostHandle.OpInputs[0].GetRemoteHandle().OpId = 99
		_, err := main.Run(t.Context(), lostHandle)
		wantError(t, err, status.InvalidArgument, "Unable to find the relevant tensor remote_handle: Op ID: 99")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls.failing(func(ctx context.Context, item *corepb.QueueItem) error {
			if item != nil {
				return nil
			}
			cancel()
			<-ctx.Done()
			return status.From(ctx.Err())
		})
		_, err := main.Run(ctx, step("20:0"))
		wantError(t, err, status.Cancelled)
		calls.failing(nil)
	})
	t.Run("outputs elsewhere", func(t *testing.T) { // of a component that has ended when another one fails
		main.register(`
			signature { name: "squares" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } output_arg { name: "z" type: DT_FLOAT } }
			node_def { name: "y" op: "Square" input: "x" device: "/job:ps/task:0" attr { key: "T" value { type: DT_FLOAT } } }
			node_def { name: "z" op: "Square" input: "x" device: "/job:ps/task:1" attr { key: "T" value { type: DT_FLOAT } } }
			ret { key: "y" value: "y:y:0" } ret { key: "z" value: "z:y:0" }`)
		ran := func() int { return calls.count("at "+psTask+" run") + calls.count("at "+ps1Task+" run") }
		before, handles := ran(), ps.handles.count()
		var begun atomic.Int32
		calls.failing(func(_ context.Context, item *corepb.QueueItem) error {
			if item != nil || begun.Add(1) == 1 {
				return nil
			}
			for ran() == before {
				runtime.Gosched()
			}
			return lost
		})
		_, err := main.Run(t.Context(), call(40, "squares", "20:0"))
		wantError(t, err, status.Unavailable, "Socket closed")
		calls.failing(nil)
		until(t, "the output is released", func() bool { return ps.handles.count() == handles && ps1.handles.count() == 0 })
	})
	main.run(step("20:0")) // all is well again
	main.want("30:0", 10, 200)
	calls.wait("at "+psTask+" cleanup", 7)
	calls.wait("at "+ps1Task+" cleanup", 1)
	for _, c := range []*eagerClient{main, ps, ps1} {
		if n := len(c.node.task.eager.steps); n != 1 {
			t.Errorf("%s has %d steps", c.names.client, n)
		}
		c.close()
	}
}

// TestAnswerOfComponentLost: outputs that other tasks keep are released if the answers which tell of them do not arrive.
func TestAnswerOfComponentLost(t *testing.T) {
	main, ps, ps1, calls := spreadCluster(t)
	main.send(20, 10, 100)
	main.register(`
		signature { name: "squares" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } output_arg { name: "z" type: DT_FLOAT } }
		node_def { name: "y" op: "Square" input: "x" device: "/job:ps/task:0" attr { key: "T" value { type: DT_FLOAT } } }
		node_def { name: "z" op: "Square" input: "x" device: "/job:ps/task:1" attr { key: "T" value { type: DT_FLOAT } } }
		ret { key: "y" value: "y:y:0" } ret { key: "z" value: "z:y:0" }`)
	ctx, cancel := context.WithCancel(t.Context())
	var ended atomic.Int32
	calls.lose = func(ctx context.Context) error {
		if ended.Add(1) == 2 {
			cancel()
		}
		<-ctx.Done()
		return status.From(ctx.Err())
	}
	_, err := main.Run(ctx, call(40, "squares", "20:0"))
	wantError(t, err, status.Cancelled)
	until(t, "the outputs are released", func() bool { return ps.handles.count() == 0 && ps1.handles.count() == 0 })
	for _, c := range []*eagerClient{main, ps, ps1} {
		c.close()
	}
}

// TestComponentThatEndsTooLate: a component whose caller has given up meanwhile makes no handles, whether or not the caller has released them already.
func TestComponentThatEndsTooLate(t *testing.T) {
	main, ps, ps1, _ := spreadCluster(t)
	v, err := three(t).Proto()
	if err != nil {
		t.Fatal(err)
	}
	if err := ps.SendTensor(&corepb.SendTensorOp{OpId: 20, Tensors: []*tensorProto{v}, DeviceName: psCPU}); err != nil {
		t.Fatal(err)
	}
	f := functionDef(t, unary("late", "Neg", ""))
	if err := ps.Register(&corepb.RegisterFunctionOp{FunctionDef: f, IsComponentFunction: true}); err != nil {
		t.Fatal(err)
	}
	run := &corepb.Operation{Id: 40, Name: "late", Device: psCPU, IsFunction: true, IsComponentFunction: true, FuncStepId: -5}
	in := &corepb.RemoteTensorHandle{OpId: 20, Device: psCPU}
	run.OpInputs = []*corepb.Operation_Input{{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: in}}}
	ctx := &endsLate{Context: t.Context(), of: ps.EagerContext, handles: ps.handles.count() + 1}
	_, err = ps.RunComponent(ctx, &corepb.RunComponentFunctionRequest{ContextId: 7, Operation: run, OutputNum: []int32{0}})
	wantError(t, err, status.Cancelled)
	if ps.handles.count() != 1 {
		t.Errorf("there are %d handles, want the input", ps.handles.count())
	}
	for _, c := range []*eagerClient{main, ps, ps1} {
		c.close()
	}
}

// endsLate is a context that has ended once a context has as many handles.
type endsLate struct {
	context.Context
	of      *EagerContext
	handles int
}

func (e *endsLate) Err() error {
	if e.of.handles.count() >= e.handles {
		return context.Canceled
	}
	return e.Context.Err()
}

// TestReplacedMain: what a main has left on other tasks is taken back also if the client replaces the context of the main alone.
func TestReplacedMain(t *testing.T) {
	main, ps, ps1, calls := spreadCluster(t)
	ps.variable(10, psCPU, "v", 1, 2)
	main.send(20, 10, 100)
	main.register(train)
	before := ps.library.count()
	main.run(away(call(30, "__inference_train_9", "10:0", "20:0"), 0, psCPU, typespb.DataType_DT_RESOURCE))
	newEager(t, main.node, EagerSpec{ID: 7, View: 1, Task: eagerTask, Peers: main.cluster.Load().peers})
	until(t, "the component is removed", func() bool { return ps.library.count() == before })
	calls.wait("at "+psTask+" cleanup", 1)
	for _, c := range []*eagerClient{ps, ps1} {
		c.close()
	}
}

// TestRegistrationGivenUp: a call that ends while a component is being registered leaves no registration behind when the function is removed.
func TestRegistrationGivenUp(t *testing.T) {
	main, ps, ps1, calls := spreadCluster(t)
	ps.variable(10, psCPU, "v", 1, 2)
	main.send(20, 10, 100)
	main.register(train)
	functions := func() int {
		ps.library.mu.Lock()
		defer ps.library.mu.Unlock()
		return len(ps.library.byName)
	}
	before := functions()
	ctx, cancel := context.WithCancel(t.Context())
	goOn := make(chan struct{})
	calls.failing(func(ctx context.Context, item *corepb.QueueItem) error {
		if item.GetRegisterFunction() == nil {
			return nil
		}
		cancel()
		select { // the other task registers the function, and the answer comes too late for the call
		case <-goOn:
			return nil
		case <-ctx.Done():
			if err := ps.Register(item.GetRegisterFunction()); err != nil {
				t.Error(err)
			}
			return status.From(ctx.Err())
		}
	})
	_, err := main.Run(ctx, away(call(30, "__inference_train_9", "10:0", "20:0"), 0, psCPU, typespb.DataType_DT_RESOURCE))
	wantError(t, err, status.Cancelled)
	if err := main.RemoveFunction("__inference_train_9"); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	until(t, "the registration is taken back", func() bool { return functions() == before && calls.count("at "+psTask+" remove") == 1 })
	for _, c := range []*eagerClient{main, ps, ps1} {
		c.close()
	}
}

// TestRegistrationWithoutAnswer: a component goes with its function also if the other task's answers to its registration were lost.
func TestRegistrationWithoutAnswer(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("again=%t", again), func(t *testing.T) {
			main, ps, ps1, calls := spreadCluster(t)
			ps.variable(10, psCPU, "v", 1, 2)
			main.send(20, 10, 100)
			main.register(train)
			before := ps.library.count()
			calls.failing(func(_ context.Context, item *corepb.QueueItem) error {
				if item.GetRegisterFunction() == nil {
					return nil
				}
				if err := ps.Register(item.GetRegisterFunction()); err != nil {
					t.Error(err)
				}
				return status.Errorf(status.Unavailable, "Socket closed")
			})
			step := away(call(30, "__inference_train_9", "10:0", "20:0"), 0, psCPU, typespb.DataType_DT_RESOURCE)
			_, err := main.Run(t.Context(), step)
			wantError(t, err, status.Unavailable, "Socket closed")
			calls.failing(nil)
			if again {
				main.run(step)
			}
			if err := main.RemoveFunction("__inference_train_9"); err != nil {
				t.Fatal(err)
			}
			until(t, "the component is removed", func() bool { return ps.library.count() == before })
			for _, c := range []*eagerClient{main, ps, ps1} {
				c.close()
			}
		})
	}
}

func three(t testing.TB) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromValues([]float32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
