package actors

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

// network is a cluster in the test's process: tasks with their own actor systems. Messages between them pass through it as bytes and are
// handled by the goroutine that reads them. It can break links, stop tasks, and hold or lose messages.
type network struct {
	t     testing.TB
	lease time.Duration

	mu    sync.Mutex
	tasks []string
	nodes map[string]*node // the tasks that are up
	ended []*node          // ended tasks; none of their memory may be in use at the end of the test
	seen  map[string][]device.Attributes
	boots uint64
	cut   map[[2]string]bool
	files func(job string) FileAccess                // of a task; nil for none
	more  func(n *node, job string) []devices.Device // devices of a task beside its CPU; nil for none
	pipes map[[2]string]*pipe
	jams  map[[2]string]*jam
	// pass decides whether a message is delivered; nil delivers all. It may keep a message and deliver it later.
	pass    func(from, to string, m proto.Message, deliver func()) bool
	sending func(m proto.Message) // may be nil

	readers sync.WaitGroup
	over    chan struct{}
}

// node is a task that is up. It is its own view of the cluster.
type node struct {
	net    *network
	name   string
	boot   uint64
	system *actor.ActorSystem
	device *devices.CPU
	task   *Task
	log    warnings

	mu    sync.Mutex
	down  func(task string, err error)
	downs map[*func(error)]string // what OnDown has registered, with the task
	held  int
	large int // number of pushed tensors
}

// warnings is the text of the warnings that a task has logged.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// newNetwork starts task 0 of each job. At the end of the test they are stopped, and no goroutine and no tensor may be left.
func newNetwork(t testing.TB, jobs ...string) *network { return newNetworkWith(t, nil, jobs...) }

// newNetworkWith gives the tasks access to files.
func newNetworkWith(t testing.TB, files func(job string) FileAccess, jobs ...string) *network {
	net := &network{t: t, files: files, lease: time.Hour, nodes: map[string]*node{}, seen: map[string][]device.Attributes{}, cut: map[[2]string]bool{},
		pipes: map[[2]string]*pipe{}, jams: map[[2]string]*jam{}, over: make(chan struct{})}
	leaks := goleak.IgnoreCurrent()
	host := tensor.Host.Stats().InUse
	t.Cleanup(func() {
		net.mu.Lock()
		nodes := slices.Collect(maps.Values(net.nodes))
		net.mu.Unlock()
		for _, n := range nodes {
			n.stop(context.Background())
		}
		close(net.over)
		net.readers.Wait()
		// This comes first: goroutines release what they hold when they end.
		if err := goleak.Find(leaks); err != nil {
			t.Error(err)
		}
		for _, n := range net.ended {
			if used := n.device.Pool().Stats().InUse; used != 0 {
				t.Errorf("%d bytes of the memory of %s are still in use", used, n.name)
			}
		}
		if n := tensor.Host.Stats().InUse - host; n != 0 {
			t.Errorf("%d bytes of the host's memory are still in use", n)
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
	// A message to an actor that has stopped is a dead letter. The library throttles dead letters with a goroutine that lives for an interval.
	n.system = actor.NewActorSystem(actor.WithDeadLetterThrottleInterval(time.Millisecond), actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	n.system.ProcessRegistry.Address = name
	n.system.ProcessRegistry.RegisterAddressResolver(func(pid *actor.PID) (actor.Process, bool) {
		return wireTo{n, pid.Address}, true
	})
	n.device = devices.NewCPU(n.system, name+"/device:CPU:0", job, 0)
	all := []devices.Device{n.device}
	if net.more != nil {
		all = append(all, net.more(n, job)...)
	}
	var access FileAccess
	if net.files != nil {
		access = net.files(job)
	}
	var err error
	n.task, err = NewTask(Config{System: n.system, Cluster: n, Devices: all, Boot: n.boot, Lease: net.lease, Files: access, Events: &view.Events{},
		Log: slog.New(slog.NewTextHandler(&n.log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		net.t.Fatal(err)
	}
	net.mu.Lock()
	net.nodes[name], net.seen[name] = n, n.task.Describe()
	net.mu.Unlock()
	return n
}

// stop ends a task in order, as its server does on request. Steps may run until ctx ends.
func (n *node) stop(ctx context.Context) {
	n.net.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := n.task.Stop(ctx); err != nil {
		n.net.t.Errorf("%s did not stop: %v", n.name, err)
	}
	if n.net.remove(n) { // its peers get a goodbye
		for _, other := range n.net.tasks {
			if other != n.name {
				n.net.tell(other, n.name)
			}
		}
	}
	n.system.Shutdown()
	n.net.mu.Lock()
	n.net.ended = append(n.net.ended, n)
	n.net.mu.Unlock()
	if n.held != 0 {
		n.net.t.Errorf("%s holds %d links", n.name, n.held)
	}
}

// kill ends a task as if its process died: the others lose it before it knows.
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

// tell notifies a task that it lost another one, after all messages from that one.
func (net *network) tell(task, lost string) {
	net.lose(lost, task)
	n := net.node(task)
	if n == nil {
		return
	}
	n.down(lost, net.lost(lost))
	n.mu.Lock()
	var calls []func(error)
	for f, of := range n.downs {
		if of == lost {
			delete(n.downs, f)
			calls = append(calls, *f)
		}
	}
	n.mu.Unlock()
	for _, f := range calls {
		f(net.lost(lost))
	}
}

func (net *network) lost(task string) error {
	return status.Errorf(status.Unavailable, "worker %s was lost: the test says so", task)
}

// part breaks the link between two tasks; join restores it.
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

// filter sets the function that decides about messages.
func (net *network) filter(pass func(from, to string, m proto.Message, deliver func()) bool) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.pass = pass
}

// onSend sets a function that is called on the sender's goroutine before a message is sent.
func (net *network) onSend(f func(m proto.Message)) {
	net.mu.Lock()
	defer net.mu.Unlock()
	net.sending = f
}

// wireTo carries messages from a task to an address.
type wireTo struct {
	from *node
	to   string
}

// SendUserMessage sends a message, as bytes.
func (w wireTo) SendUserMessage(pid *actor.PID, message any) {
	_, content, sender := actor.UnwrapEnvelope(message)
	net := w.from.net
	net.mu.Lock()
	sending := net.sending
	net.mu.Unlock()
	if sending != nil {
		sending(messageOf(content))
	}
	q := &letter{kind: content, id: pid.Id}
	if sender != nil {
		q.sender = actor.NewPID(sender.Address, sender.Id)
	}
	err := q.write(content)
	if err != nil {
		net.t.Errorf("a message from %s to %s: %v", w.from.name, w.to, err)
		return
	}
	net.mu.Lock()
	defer net.mu.Unlock()
	if net.cut[[2]string{w.from.name, w.to}] || net.nodes[w.from.name] != w.from || net.nodes[w.to] == nil {
		return
	}
	net.pipe(w.from.name, w.to).put(q, net.nodes[w.to])
}

// letter is a message as bytes.
type letter struct {
	kind    any // its type
	message []byte
	tensors [][]byte
	id      string
	sender  *actor.PID
	to      *node
}

func messageOf(content any) proto.Message {
	if p, ok := content.(*wire.Parcel); ok {
		return p.Message
	}
	return content.(proto.Message)
}

func (q *letter) write(content any) error {
	if p, ok := content.(*wire.Parcel); ok {
		defer p.Release()
		for _, t := range p.Tensors {
			head, content, err := t.AppendWire(nil)
			if err != nil {
				return err
			}
			q.tensors = append(q.tensors, slices.Concat(head, content))
		}
	}
	m, err := proto.Marshal(messageOf(content))
	q.message = m
	return err
}

func (q *letter) read() (any, error) {
	m := messageOf(q.kind).ProtoReflect().New().Interface()
	if err := proto.Unmarshal(q.message, m); err != nil {
		return nil, err
	}
	if _, ok := q.kind.(*wire.Parcel); !ok {
		return m, nil
	}
	out := &wire.Parcel{Message: m}
	for _, b := range q.tensors {
		t, err := tensor.ReadWire(tensor.NewBytes(b), len(b), q.to.device.Pool())
		if err != nil {
			return nil, err
		}
		out.Tensors = append(out.Tensors, t)
	}
	return out, nil
}

// deliver hands the message to its process, on the caller's goroutine.
func (q *letter) deliver() {
	net := q.to.net
	process, ok := q.to.system.ProcessRegistry.GetLocal(q.id)
	if net.node(q.to.name) != q.to || !ok {
		return
	}
	m, err := q.read()
	if err != nil {
		net.t.Errorf("a message to %s: %v", q.to.name, err)
		return
	}
	process.SendUserMessage(actor.NewPID(q.to.name, q.id), &actor.MessageEnvelope{Message: m, Sender: q.sender})
}

// pipe carries messages from one task to another: a goroutine reads and handles them.
type pipe struct {
	net      *network
	from, to string
	mu       sync.Mutex // guards queue
	queue    []*letter
	more     chan struct{}
	handling sync.Mutex // held while a message is being handled
}

// pipe returns the pipe between two tasks; the caller holds the lock.
func (net *network) pipe(from, to string) *pipe {
	key := [2]string{from, to}
	p := net.pipes[key]
	if p == nil {
		p = &pipe{net: net, from: from, to: to, more: make(chan struct{}, 1)}
		net.pipes[key] = p
		net.readers.Go(p.read)
	}
	return p
}

func (p *pipe) put(q *letter, to *node) {
	q.to = to
	p.mu.Lock()
	p.queue = append(p.queue, q)
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// read handles incoming messages until the network ends.
func (p *pipe) read() {
	for {
		select {
		case <-p.more:
		case <-p.net.over:
			return
		}
		for p.next() {
		}
	}
}

func (p *pipe) next() bool {
	p.handling.Lock()
	defer p.handling.Unlock()
	p.mu.Lock()
	if len(p.queue) == 0 {
		p.mu.Unlock()
		return false
	}
	q := p.queue[0]
	p.queue = p.queue[1:]
	p.mu.Unlock()
	p.net.mu.Lock()
	pass := p.net.pass
	p.net.mu.Unlock()
	if pass == nil || pass(p.from, p.to, messageOf(q.kind), q.deliver) {
		q.deliver()
	}
	return true
}

// empty drops what is in transit and returns when no message is being handled any more.
func (p *pipe) empty() {
	p.mu.Lock()
	p.queue = nil
	p.mu.Unlock()
	p.handling.Lock()
	defer p.handling.Unlock()
}

// lose drops what is in transit from one task to another.
func (net *network) lose(from, to string) {
	net.mu.Lock()
	p := net.pipes[[2]string{from, to}]
	net.mu.Unlock()
	if p != nil {
		p.empty()
	}
}

func (wireTo) SendSystemMessage(*actor.PID, any) {}
func (wireTo) Stop(*actor.PID)                   {}

func (n *node) Self() string    { return n.name }
func (n *node) Tasks() []string { return n.net.tasks }

func (n *node) Known(task string) []device.Attributes {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return n.net.seen[task]
}

func (n *node) Find(_ context.Context, task string) []device.Attributes {
	if p := n.Reached(task); p != nil {
		n.net.mu.Lock()
		n.net.seen[task] = p.Devices()
		n.net.mu.Unlock()
	}
	return n.Known(task)
}

func (n *node) Peer(ctx context.Context, task string) (Peer, error) {
	if p := n.Reached(task); p != nil {
		return p, ctx.Err()
	}
	return nil, n.net.lost(task)
}

func (n *node) Unseen(string) bool { return false }

func (n *node) Reached(task string) Peer {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	p := n.net.nodes[task]
	if p == nil || n.net.cut[[2]string{n.name, task}] {
		return nil
	}
	return reached{n, p}
}

func (n *node) Down(task string) bool {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return n.net.seen[task] != nil && (n.net.nodes[task] == nil || n.net.cut[[2]string{n.name, task}])
}

func (n *node) State(task string) TaskState {
	switch {
	case n.Down(task):
		return TaskState{State: view.StateDown, Reason: "its process is gone"}
	case n.Reached(task) == nil:
		return TaskState{State: view.StateNeverSeen}
	}
	return TaskState{State: view.StateUp}
}

func (n *node) Watch(down func(task string, err error)) { n.down = down }

// reached is a peer as another task sees it.
type reached struct{ by, peer *node }

func (r reached) Task() string                 { return r.peer.name }
func (r reached) Address() string              { return r.peer.name }
func (r reached) Boot() uint64                 { return r.peer.boot }
func (r reached) Devices() []device.Attributes { return r.peer.task.Describe() }

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

func (r reached) OnDown(f func(error)) (cancel func()) {
	r.by.mu.Lock()
	if r.by.downs == nil {
		r.by.downs = map[*func(error)]string{}
	}
	r.by.downs[&f] = r.peer.name
	r.by.mu.Unlock()
	cancel = func() {
		r.by.mu.Lock()
		defer r.by.mu.Unlock()
		delete(r.by.downs, &f)
	}
	if r.by.net.node(r.peer.name) != r.peer || r.by.Reached(r.peer.name) == nil { // it was told before
		cancel()
		f(r.by.net.lost(r.peer.name))
	}
	return cancel
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
	deliver := func() { r.peer.task.Deliver(p.Step, p.Key, c) }
	if j := r.jam(); j == nil || !j.take(len(c.Data()), deliver) {
		deliver()
	}
	return nil
}

func (r reached) Room(n int, ready func()) bool {
	j := r.jam()
	return j == nil || j.room(r.by, n, ready)
}

func (r reached) jam() *jam {
	r.by.net.mu.Lock()
	defer r.by.net.mu.Unlock()
	return r.by.net.jams[[2]string{r.by.name, r.peer.name}]
}

// jam stops large tensors between two tasks until it is cleared.
type jam struct {
	mu      sync.Mutex
	limit   int // bytes that may wait
	queued  int
	peak    int64 // of the sender's memory when it asked for room
	waiting []func()
	held    []func()
	cleared bool
}

// jam stops the large tensors from one task to another; at most limit bytes of them may wait.
func (net *network) jam(from, to string, limit int) *jam {
	net.mu.Lock()
	defer net.mu.Unlock()
	j := &jam{limit: limit}
	net.jams[[2]string{from, to}] = j
	return j
}

func (j *jam) take(n int, deliver func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cleared {
		return false
	}
	j.queued += n
	j.held = append(j.held, deliver)
	return true
}

func (j *jam) room(by *node, n int, ready func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.peak = max(j.peak, by.device.Pool().Stats().InUse)
	if j.cleared || j.queued+n <= j.limit {
		return true
	}
	j.waiting = append(j.waiting, ready)
	return false
}

// clear lets all tensors pass.
func (j *jam) clear() {
	j.mu.Lock()
	held, waiting := j.held, j.waiting
	j.cleared, j.held, j.waiting = true, nil, nil
	j.mu.Unlock()
	for _, f := range slices.Concat(held, waiting) {
		f()
	}
}

// wantError fails the test unless err has the code and its message contains all parts.
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
