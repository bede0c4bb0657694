package actors

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// panicCounter is a log that counts the panics of actors and of their background work.
type panicCounter struct{ n atomic.Int64 }

func (c *panicCounter) Enabled(context.Context, slog.Level) bool { return true }

func (c *panicCounter) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic") {
		c.n.Add(1)
	}
	return nil
}

func (c *panicCounter) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c *panicCounter) WithGroup(string) slog.Handler { return c }

// messages returns an empty message of each type that links deliver to a task's roles.
func messages() []proto.Message {
	return []proto.Message{&wire.RunPartition{}, &wire.PartitionDone{}, &wire.Tensors{}, &wire.AbortStep{}, &wire.DropSession{}, &wire.ClearContainers{},
		&view.Query{}, &view.Task{}, &view.GraphQuery{}, &view.Graph{}, &wire.Claim{}, &wire.Homes{}, &wire.Note{}, &wire.Known{}, &wire.Leaves{}, &wire.Adopt{}, &wire.Left{}, &wire.Forget{}, &wire.Done{}, &wire.AttachConnection{}, &wire.ConnectionClosed{},
		&wire.CancelStep{}, &wire.StepCancelled{}, &wire.LeaseExpired{}, &wire.RemoveSession{}, &wire.RemoveSessions{}, &wire.AdmitSession{}, &wire.PeerLost{}}
}

// tell sends a message as links do: with or without tensors, with or without a sender.
func tell(n *node, m proto.Message, sender *actor.PID, tensors int) {
	var message any = m
	switch m.(type) {
	case *wire.RunPartition, *wire.PartitionDone, *wire.Tensors:
		p := &wire.Parcel{Message: m}
		for range tensors {
			p.Tensors = append(p.Tensors, kernelstest.I64(nil, 1))
		}
		message = p
	}
	for _, r := range []*roles.Ref{n.task.worker, n.task.master, n.task.directory} {
		if p, ok := message.(*wire.Parcel); ok && r != n.task.worker {
			message = &wire.Parcel{Message: p.Message} // the first one took the tensors
		}
		if sender == nil {
			r.Send(message)
		} else {
			r.Send(&actor.MessageEnvelope{Message: message, Sender: sender})
		}
	}
}

func TestMessagesWithoutSender(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a := net.nodes[taskName("a")]
	log := &panicCounter{}
	a.task.Log = slog.New(log)
	c := open(t, a, `x = Placeholder() dtype=int64
		y = Neg(x)`)
	for _, m := range messages() {
		if r, ok := m.(*wire.RunPartition); ok {
			r.Boot, r.Session, r.Plan = a.boot, "s", &wire.Plan{Parts: []*wire.Part{{}, {}}}
		}
		tell(a, m, nil, 1)
	}
	if got, err := c.try(t.Context(), request(map[string]int64{"x:0": 2}, "y:0")); err != nil || got[0] != -2 {
		t.Errorf("after the messages a step gives %v, %v", got, err)
	}
	if n := log.n.Load(); n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestFailureOfUnknownCode(t *testing.T) {
	for _, code := range []int32{-1, 0, 17, 1 << 30} {
		if err := (&wire.Failure{Code: code, Message: "m"}).Err(); status.CodeOf(err) != status.Unknown {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

// FuzzMessages sends a task's roles messages with arbitrary content. The actors keep running, and nothing of the messages remains.
func FuzzMessages(f *testing.F) {
	for i, m := range messages() {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), byte(0), b)
		f.Add(byte(i), byte(3), b)
	}
	b, err := proto.Marshal(&wire.RunPartition{Step: 1, Session: "s", Boot: 1, PlanId: 1, Transfers: []*wire.Transfer{{Edge: "e", Dead: true}},
		Plan: &wire.Plan{Parts: []*wire.Part{{Device: taskName("a") + "/device:CPU:0"}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(byte(0), byte(1), b)
	a := newNetwork(f, "a").nodes[taskName("a")]
	log := &panicCounter{}
	a.task.Log = slog.New(log)
	f.Fuzz(func(t *testing.T, kind, how byte, content []byte) {
		all := messages()
		m := all[int(kind)%len(all)]
		if err := proto.Unmarshal(content, m); err != nil {
			return
		}
		if r, ok := m.(*wire.RunPartition); ok && how&4 != 0 {
			r.Boot = a.boot
		}
		var sender *actor.PID
		if how&1 != 0 {
			sender = actor.NewPID(a.name, masterName)
		}
		tell(a, m, sender, int(how>>1&1))
		if n := log.n.Load(); n != 0 {
			t.Errorf("%d panics", n)
		}
		for _, st := range a.task.steps.parts() {
			st.fail(errStray)
		}
	})
}

// TestGradientOfForgedArguments sends a task a part with the gradient of a function whose body has an argument that its signature lacks.
func TestGradientOfForgedArguments(t *testing.T) {
	net := newNetwork(t, "a", "b")
	def := chainOfFunctions(1, "")
	body := def.Library.Function[0]
	forged := proto.CloneOf(def.Node[0])
	forged.Name, forged.Op = "forged", "_Arg"
	forged.Attr = kernelstest.Attrs{"T": tensor.Int64, "index": 1000}.Proto()
	body.NodeDef = append(body.NodeDef, forged)
	gradient := kernelstest.GraphDef(t, `x = Placeholder() dtype=int64`)
	gradient.Node = append(gradient.Node, &nodepb.NodeDef{Name: "out", Op: "SymbolicGradient", Input: []string{"x", "x"}, Device: "/job:b/task:0",
		Attr: kernelstest.Attrs{"Tin": []tensor.DType{tensor.Int64, tensor.Int64}, "Tout": []tensor.DType{tensor.Int64}, "f": kernelstest.Func{Name: "f0"}}.Proto()})
	gradient.Library = def.Library
	a := net.nodes[taskName("a")]
	began := time.Now()
	handle, err := a.task.CreateSession(t.Context(), 0, everything, gradient, nil)
	if err == nil {
		s, e := a.task.Session(handle, 0)
		if e != nil {
			t.Fatal(e)
		}
		_, err = (&client{t, a, s}).try(t.Context(), request(map[string]int64{"x:0": 2}, "out:0"))
	}
	if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "_Arg") {
		t.Errorf("got %v", err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestLimits checks that everything that clients can accumulate is bounded, with RESOURCE_EXHAUSTED beyond the bound.
func TestLimits(t *testing.T) {
	net := newNetwork(t, "a")
	a := net.nodes[taskName("a")]
	c := open(t, a, `x = Placeholder() dtype=int64
		y = Neg(x)`)
	options := &corepb.CallableOptions{Feed: []string{"x:0"}, Fetch: []string{"y:0"}}
	var err error
	for i := 0; err == nil && i <= maxCallables; i++ {
		_, err = c.session.MakeCallable(t.Context(), options)
	}
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("callables: %v", err)
	}
	for err = nil; err == nil; {
		_, err = a.task.sessionFor(newHandle(), a.name, 0, sessionTraits{}, everything)
	}
	if _, err = a.task.CreateSession(t.Context(), 0, everything, &graphpb.GraphDef{}, nil); status.CodeOf(err) != status.ResourceExhausted {
		t.Errorf("sessions: %v", err)
	}
}

// TestLongGraphs checks that deeply nested function calls, over two tasks, are expanded in time proportional to their number, and that the
// work ends with the call that asked for it.
func TestLongGraphs(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a := net.nodes[taskName("a")]
	handle, err := a.task.CreateSession(t.Context(), 0, everything, chainOfFunctions(20_000, "/job:b/task:0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.task.Session(handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&client{t, a, s}).try(t.Context(), request(map[string]int64{"x:0": 3}, "out:0"))
	if err != nil || got[0] != -3 {
		t.Errorf("got %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if _, err = a.task.CreateSession(ctx, 0, everything, chainOfFunctions(20_000, "/job:b/task:0"), nil); err == nil {
		t.Error("a session was made for a call that was over")
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it went on for %v", d)
	}
}

// TestNoClientTakesAll checks that a client that can be told apart from others takes at most half of the sessions, steps and parts of a task, and that others
// have the rest.
func TestNoClientTakesAll(t *testing.T) {
	a := newNetwork(t, "a").nodes[taskName("a")]
	id := uint64(1 << 63)
	for _, w := range []struct {
		what string
		most int
		take func(client string) (undo func(), err error)
	}{
		{"sessions", maxSessions, func(client string) (func(), error) {
			handle := newHandle()
			_, err := a.task.sessionFor(handle, a.name, 0, sessionTraits{}, Rights{Client: client})
			return func() { a.task.forgetSession(handle) }, err
		}},
		{"steps under way", maxSteps, func() func(client string) (func(), error) {
			s := &Session{}
			return func(client string) (func(), error) {
				if s.steps.Len() == maxSessionSteps || s.rights.Client != client {
					s = &Session{rights: Rights{Client: client}}
				}
				st := a.task.takeStep()
				id++
				st.own.entry.ID = id
				return func() { a.task.steps.leave(st) }, a.task.steps.enter(s, st)
			}
		}()},
		{"steps under way", maxSteps, func(client string) (func(), error) {
			st := a.task.makeStep(nil)
			id++
			st.session, st.entry.ID = &workerSession{client: client}, id
			return func() { a.task.steps.end(st) }, a.task.steps.begin(st)
		}},
	} {
		var all []func()
		take := func(client string) error {
			undo, err := w.take(client)
			if err == nil {
				all = append(all, undo)
			}
			return err
		}
		var err error
		for err == nil {
			err = take("alice")
		}
		wantError(t, err, status.ResourceExhausted, "alice on "+a.name, w.what)
		if n := len(all); n != w.most/2 {
			t.Errorf("alice takes %d %s", n, w.what)
		}
		for _, other := range []string{"bob", ""} {
			for range w.most / 8 {
				if err := take(other); err != nil {
					t.Fatalf("%q, beside alice: %v", other, err)
				}
			}
		}
		for _, undo := range all {
			undo()
		}
		if err := take("alice"); err != nil {
			t.Errorf("when all is over: %v", err)
		}
		all[len(all)-1]()
	}
}

// TestStepsUnderWayAreBounded checks that steps beyond the limits of a session and of a task are refused, and that refused steps are not
// counted.
func TestStepsUnderWayAreBounded(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.nodes[taskName("a")], net.nodes[taskName("b")]
	c := open(t, a, `x = Placeholder() dtype=int64
		y = Neg(x)
		z = Neg(y) @b0`)
	near, far := request(map[string]int64{"x:0": 2}, "y:0"), request(map[string]int64{"x:0": 2}, "z:0")
	refused := func(req *StepRequest, of string) {
		t.Helper()
		r := request(map[string]int64{"x:0": 2}, req.Fetches...)
		_, err := c.try(t.Context(), r)
		wantError(t, err, status.ResourceExhausted, of, "steps under way, its limit")
	}
	defer near.done()
	defer far.done()
	id := uint64(1 << 63)
	fill := func(s *Session, n int) (empty func()) {
		all := make([]*step, n)
		for i := range all {
			id++
			all[i] = a.task.takeStep()
			all[i].own.entry.ID = id
			if err := a.task.steps.enter(s, all[i]); err != nil {
				t.Fatal(err)
			}
		}
		return func() {
			for _, st := range all {
				a.task.steps.leave(st)
			}
		}
	}
	empty := fill(c.session, maxSessionSteps)
	refused(near, "Session "+c.session.handle+" has 16384")
	empty()
	var more []func()
	for range maxSteps / maxSessionSteps {
		more = append(more, fill(&Session{}, maxSessionSteps))
	}
	refused(near, a.name+" has 65536")
	for _, empty := range more {
		empty()
	}
	parts := make([]*stepPart, maxSteps)
	for i := range parts {
		parts[i] = b.task.makeStep(nil)
		parts[i].entry.ID = 1<<63 | uint64(i)
		if err := b.task.steps.begin(parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	refused(far, b.name+" has 65536")
	for _, st := range parts {
		b.task.steps.end(st)
	}
	c.run(request(map[string]int64{"x:0": 2}, "y:0"), -2)
	c.run(request(map[string]int64{"x:0": 2}, "z:0"), 2)
	c.idle()
	if n := a.task.steps.masters(); n != 0 {
		t.Errorf("%d steps are counted as under way", n)
	}
}

// TestChangesThatWaitAreBounded checks that a session's changes do not pile up behind a slow one.
func TestChangesThatWaitAreBounded(t *testing.T) {
	net := newNetwork(t, "a")
	c := open(t, net.nodes[taskName("a")], `x = Placeholder() dtype=int64`)
	client := processors.Default.Open("another")
	others := make([]processors.Work, runtime.GOMAXPROCS(0))
	for i := range others {
		others[i].Begin(client)
		others[i].Enter()
		others[i].Wait()
	}
	def := kernelstest.GraphDef(t, `n = NoOp()`)
	for i := range heavyNodes {
		def.Node = append(def.Node, &nodepb.NodeDef{Name: "n" + strconv.Itoa(i), Op: "NoOp"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	send := func(ctx context.Context, def *graphpb.GraphDef, version int64) <-chan error {
		m := &change{message: &wire.Extend{Version: version}, ctx: ctx, def: def, reply: make(chan error, 1)}
		c.session.self.Send(m)
		return m.reply
	}
	held := send(ctx, def, 0)
	var waiting []<-chan error
	for range maxChanges {
		waiting = append(waiting, send(t.Context(), &graphpb.GraphDef{}, 7))
	}
	wantError(t, <-send(t.Context(), &graphpb.GraphDef{}, 7), status.ResourceExhausted, "16384 changes that wait, its limit")
	cancel()
	wantError(t, <-held, status.Cancelled)
	for i := range others {
		others[i].Leave()
	}
	client.Close()
	wantError(t, <-waiting[0], status.Aborted, "Current version is 0 but caller expected 7")
	c.close()
}

// TestAbortWithoutFailure sends an abort without a reason to a task that waits in a part of a step.
func TestAbortWithoutFailure(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, b := net.nodes[taskName("a")], net.nodes[taskName("b")]
	c := open(t, a, waiting)
	for _, failure := range []*wire.Failure{nil, {}, {Code: 1 << 30}} {
		ended := c.begin(t.Context(), request(nil, "z:0"))
		b.awaits("take")
		for _, st := range b.task.steps.parts() {
			b.task.worker.Send(&wire.AbortStep{Step: uint64(st.ID), Failure: failure})
			b.task.worker.Send(&wire.AbortStep{Step: uint64(st.ID) + 1, Failure: failure})
		}
		if err := <-ended; err == nil {
			t.Errorf("%v: the step went on", failure)
		}
		c.idle()
	}
	taken := c.begin(t.Context(), request(nil, "z:0"))
	put := request(nil)
	put.Targets = []string{"put"}
	c.run(put)
	if err := <-taken; err != nil {
		t.Error(err)
	}
}

// TestTextFileColumnsOutOfRange initializes tables from columns that no line has, on the master's task and on another one.
func TestTextFileColumnsOutOfRange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vocabulary")
	if err := os.WriteFile(path, []byte("a b\nc d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	net := newNetwork(t, "a", "b")
	a := net.nodes[taskName("a")]
	for _, task := range []string{"a0", "b0"} {
		for _, columns := range [][2]int64{{math.MaxInt64, 0}, {0, math.MaxInt64}, {math.MaxInt64 - 1, 1}, {-3, 0}, {0, -3}, {math.MinInt64, math.MinInt64}} {
			began := time.Now()
			err := initializeTable(t, a, task, path, columns)
			if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "{{node init}}") && !strings.Contains(err.Error(), "_index") {
				t.Errorf("columns %v on %s: %v", columns, task, err)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("columns %v on %s: it took %v", columns, task, d)
			}
		}
		if err := initializeTable(t, a, task, path, [2]int64{0, 1}); err != nil {
			t.Errorf("on %s: %v", task, err)
		}
	}
}

// initializeTable makes a table from columns of a file.
func initializeTable(t *testing.T, n *node, device, path string, columns [2]int64) error {
	t.Helper()
	def := kernelstest.GraphDef(t, "table = HashTableV2() @"+device)
	at := def.Node[0]
	at.Attr = kernelstest.Attrs{"key_dtype": tensor.String, "value_dtype": tensor.String, "container": "", "shared_name": "", "use_node_name_sharing": false}.Proto()
	def.Node = append(def.Node,
		&nodepb.NodeDef{Name: "path", Op: "Const", Device: at.Device, Attr: kernelstest.Attrs{"dtype": tensor.String, "value": kernelstest.Str(nil, path)}.Proto()},
		&nodepb.NodeDef{Name: "init", Op: "InitializeTableFromTextFileV2", Input: []string{"table", "path"}, Device: at.Device,
			Attr: kernelstest.Attrs{"key_index": columns[0], "value_index": columns[1], "vocab_size": -1, "delimiter": " "}.Proto()})
	handle, err := n.task.CreateSession(t.Context(), 0, everything, def, nil)
	if err != nil {
		return err
	}
	s, err := n.task.Session(handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	req := request(nil)
	req.Targets = []string{"init"}
	_, err = (&client{t, n, s}).try(t.Context(), req)
	if e := n.task.CloseSession(t.Context(), handle); e != nil {
		t.Error(e)
	}
	return err
}
