package actors

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

// network is a cluster in the test's process: tasks with actor systems of their own, whose messages
// pass through it as copies. It can break links, stop tasks, and hold or lose messages.
type network struct {
	t     testing.TB
	lease time.Duration

	mu    sync.Mutex
	tasks []string
	nodes map[string]*node // that are up
	seen  map[string][]DeviceInfo
	boots uint64
	cut   map[[2]string]bool
	// pass decides whether a message is delivered; nil for all. It may keep it and deliver later.
	pass func(from, to string, m proto.Message, deliver func()) bool
}

// node is a task that is up. It is its own view of the cluster.
type node struct {
	net    *network
	name   string
	boot   uint64
	system *actor.ActorSystem
	device *devices.CPU
	task   *Task

	mu    sync.Mutex
	down  func(task string, err error)
	held  int
	large int // tensors that were pushed
}

// newNetwork starts the tasks 0 of jobs. When the test ends they are stopped, and nothing of them
// may be left: no goroutine, no tensor.
func newNetwork(t testing.TB, jobs ...string) *network {
	net := &network{t: t, lease: time.Hour, nodes: map[string]*node{}, seen: map[string][]DeviceInfo{}, cut: map[[2]string]bool{}}
	leaks := goleak.IgnoreCurrent()
	host := tensor.Host.Stats().InUse
	t.Cleanup(func() {
		net.mu.Lock()
		nodes := slices.Collect(maps.Values(net.nodes))
		net.mu.Unlock()
		for _, n := range nodes {
			n.stop(context.Background())
		}
		if n := tensor.Host.Stats().InUse - host; n != 0 {
			t.Errorf("%d bytes of the host's memory are still in use", n)
		}
		if err := goleak.Find(leaks); err != nil {
			t.Error(err)
		}
	})
	for _, job := range jobs {
		net.tasks = append(net.tasks, taskName(job))
	}
	for _, job := range jobs {
		net.start(job)
	}
	return net
}

func taskName(job string) string { return "/job:" + job + "/replica:0/task:0" }

// start boots a task's process.
func (net *network) start(job string) *node {
	net.t.Helper()
	name := taskName(job)
	net.mu.Lock()
	net.boots++
	n := &node{net: net, name: name, boot: net.boots}
	net.mu.Unlock()
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	n.system.ProcessRegistry.Address = name
	n.system.ProcessRegistry.RegisterAddressResolver(func(pid *actor.PID) (actor.Process, bool) {
		return wireTo{n, pid.Address}, true
	})
	n.device = devices.NewCPU(n.system, name+"/device:CPU:0", job, 0)
	var err error
	n.task, err = NewTask(Config{System: n.system, Cluster: n, Devices: []*devices.CPU{n.device}, Boot: n.boot, Lease: net.lease,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		net.t.Fatal(err)
	}
	net.mu.Lock()
	net.nodes[name], net.seen[name] = n, n.task.Describe()
	net.mu.Unlock()
	return n
}

// stop ends a task in order, as its server does when it is told to. Steps may end until ctx does.
func (n *node) stop(ctx context.Context) {
	n.net.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := n.task.Stop(ctx); err != nil {
		n.net.t.Errorf("%s did not stop: %v", n.name, err)
	}
	if n.net.remove(n) { // its peers hear a goodbye
		for _, other := range n.net.tasks {
			if other != n.name {
				n.net.tell(other, n.name)
			}
		}
	}
	n.system.Shutdown()
	if used := n.device.Pool().Stats().InUse; used != 0 {
		n.net.t.Errorf("%d bytes of the memory of %s are still in use", used, n.name)
	}
	if n.held != 0 {
		n.net.t.Errorf("%s holds %d links", n.name, n.held)
	}
}

// kill ends a task as when its process dies: the others lose it before it knows.
func (n *node) kill() {
	n.net.remove(n)
	for _, other := range n.net.tasks {
		if other != n.name {
			n.net.tell(other, n.name)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	n.stop(over)
}

func (net *network) remove(n *node) bool {
	net.mu.Lock()
	defer net.mu.Unlock()
	if net.nodes[n.name] != n {
		return false
	}
	delete(net.nodes, n.name)
	return true
}

func (net *network) node(name string) *node {
	net.mu.Lock()
	defer net.mu.Unlock()
	return net.nodes[name]
}

// tell tells a task that it lost another one.
func (net *network) tell(task, lost string) {
	if n := net.node(task); n != nil {
		n.down(lost, net.lost(lost))
	}
}

func (net *network) lost(task string) error {
	return status.Errorf(status.Unavailable, "worker %s was lost: the test says so", task)
}

// part breaks the link between two tasks; join lets it come up again.
func (net *network) part(a, b string) {
	net.mu.Lock()
	net.cut[[2]string{a, b}], net.cut[[2]string{b, a}] = true, true
	net.mu.Unlock()
	net.tell(a, b)
	net.tell(b, a)
}

func (net *network) join(a, b string) {
	net.mu.Lock()
	defer net.mu.Unlock()
	delete(net.cut, [2]string{a, b})
	delete(net.cut, [2]string{b, a})
}

// filter sets what decides about messages.
func (net *network) filter(pass func(from, to string, m proto.Message, deliver func()) bool) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.pass = pass
}

// wireTo carries messages from a task to an address.
type wireTo struct {
	from *node
	to   string
}

func (w wireTo) SendUserMessage(pid *actor.PID, message any) {
	_, content, sender := actor.UnwrapEnvelope(message)
	m := proto.Clone(content.(proto.Message))
	net := w.from.net
	net.mu.Lock()
	pass, cut := net.pass, net.cut[[2]string{w.from.name, w.to}]
	net.mu.Unlock()
	deliver := func() {
		n := net.node(w.to)
		if n == nil {
			return
		}
		process, ok := n.system.ProcessRegistry.GetLocal(pid.Id)
		if !ok {
			return
		}
		var from *actor.PID
		if sender != nil {
			from = actor.NewPID(sender.Address, sender.Id)
		}
		process.SendUserMessage(actor.NewPID(w.to, pid.Id), &actor.MessageEnvelope{Message: m, Sender: from})
	}
	if !cut && net.node(w.from.name) == w.from && (pass == nil || pass(w.from.name, w.to, m, deliver)) {
		deliver()
	}
}

func (wireTo) SendSystemMessage(*actor.PID, any) {}
func (wireTo) Stop(*actor.PID)                   {}

func (n *node) Self() string    { return n.name }
func (n *node) Tasks() []string { return n.net.tasks }

func (n *node) Known(task string) []DeviceInfo {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return n.net.seen[task]
}

func (n *node) Peer(ctx context.Context, task string) (Peer, error) {
	if p := n.Reached(task); p != nil {
		return p, ctx.Err()
	}
	return nil, n.net.lost(task)
}

func (n *node) Reached(task string) Peer {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	p := n.net.nodes[task]
	if p == nil || n.net.cut[[2]string{n.name, task}] {
		return nil
	}
	return reached{n, p}
}

func (n *node) Watch(down func(task string, err error)) { n.down = down }

// reached is a peer as another one sees it.
type reached struct{ by, peer *node }

func (r reached) Task() string          { return r.peer.name }
func (r reached) Address() string       { return r.peer.name }
func (r reached) Boot() uint64          { return r.peer.boot }
func (r reached) Devices() []DeviceInfo { return r.peer.task.Describe() }

func (r reached) Hold() func() {
	r.by.mu.Lock()
	defer r.by.mu.Unlock()
	r.by.held++
	return func() {
		r.by.mu.Lock()
		defer r.by.mu.Unlock()
		r.by.held--
	}
}

func (r reached) Push(p Push) error {
	defer p.Tensor.Release()
	c, err := p.Tensor.Clone(r.peer.device.Pool())
	if err != nil {
		return err
	}
	r.by.mu.Lock()
	r.by.large++
	r.by.mu.Unlock()
	r.peer.task.Deliver(p.Step, p.Key, c)
	return nil
}

// wantError complains unless err has the code and its message all of the parts.
func wantError(t testing.TB, err error, code status.Code, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %v", code)
	}
	if status.CodeOf(err) != code {
		t.Errorf("%v: %v; want %v", status.CodeOf(err), err, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
