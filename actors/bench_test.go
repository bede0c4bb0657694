package actors

import (
	"context"
	"math"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// alone is a cluster of one task.
type alone struct{}

func (alone) Self() string                                     { return "/job:local/replica:0/task:0" }
func (a alone) Tasks() []string                                { return []string{a.Self()} }
func (alone) Known(string) []device.Attributes                 { return nil }
func (alone) Find(context.Context, string) []device.Attributes { return nil }
func (alone) Peer(_ context.Context, task string) (Peer, error) {
	return nil, status.Internalf("no %s", task)
}
func (alone) Reached(string) Peer       { return nil }
func (alone) Down(string) bool          { return false }
func (alone) State(string) TaskState    { return TaskState{State: view.StateUp} }
func (alone) Unseen(string) bool        { return false }
func (alone) Watch(func(string, error)) {}

// task starts the cluster's only task.
func (alone) task(b testing.TB) *Task {
	b.Helper()
	system := actor.NewActorSystem()
	device := devices.NewCPU(system, alone{}.Self()+"/device:CPU:0", "local", 0)
	task, err := NewTask(Config{System: system, Cluster: alone{}, Devices: []devices.Device{device}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := task.Stop(context.Background()); err != nil {
			b.Error(err)
		}
		system.Shutdown()
	})
	return task
}

// smallSteps are steps that compute next to nothing.
var smallSteps = []struct {
	name, graph string
	feed        bool
	fetch       string
	target      string
}{
	{"no_op", "n = NoOp()", false, "", "n"},
	{"const_add", "a = Const() value=1 wide=true\nb = AddV2(a, a)", false, "b:0", ""},
	{"fed_add", "x = Placeholder()\ny = AddV2(x, x)", true, "y:0", ""},
}

// smallStep returns a function that runs a step of smallSteps, from the session on, on a task of its own.
func smallStep(tb testing.TB, number int) func() {
	tb.Helper()
	c, task := smallSteps[number], alone{}.task(tb)
	handle, err := task.CreateSession(context.Background(), 0, everything, kernelstest.GraphDef(tb, c.graph), nil)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := task.Session(handle, 0)
	if err != nil {
		tb.Fatal(err)
	}
	req := &StepRequest{}
	if c.target != "" {
		req.Targets = []string{c.target}
	}
	if c.fetch != "" {
		req.Fetches = []string{c.fetch}
	}
	if c.feed {
		req.Feeds = []Feed{{"x:0", kernelstest.I64(kernelstest.S(3), 1, 2, 3)}}
		tb.Cleanup(req.done)
	}
	ctx := tb.Context()
	return func() {
		r, err := s.Run(ctx, req)
		if err != nil {
			tb.Fatal(err)
		}
		r.Release()
	}
}

// BenchmarkRun runs a step that stays on its task, from the session on: what Troupe itself adds to the cost of a RunStep.
func BenchmarkRun(b *testing.B) {
	for i, c := range smallSteps {
		b.Run(c.name, func(b *testing.B) {
			run := smallStep(b, i)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

// A step that stays on its task allocates its result and nothing else.
func TestSmallStepsAllocateLittle(t *testing.T) {
	if extent.RaceDetector {
		t.Skip("the race detector allocates")
	}
	for i, c := range smallSteps {
		t.Run(c.name, func(t *testing.T) {
			run := smallStep(t, i)
			run()
			least := math.Inf(1)
			for range 5 { // the collector empties pools
				least = min(least, testing.AllocsPerRun(200, run))
			}
			if least > 1 {
				t.Errorf("%v allocations", least)
			}
		})
	}
}

// pair is a cluster of two tasks, one of which is played by the benchmark.
type pair struct {
	self, other string
	peer        Peer
}

func (p *pair) Self() string                                     { return p.self }
func (p *pair) Tasks() []string                                  { return []string{p.self, p.other} }
func (p *pair) Known(string) []device.Attributes                 { return nil }
func (p *pair) Find(context.Context, string) []device.Attributes { return nil }
func (p *pair) Peer(context.Context, string) (Peer, error)       { return p.peer, nil }
func (p *pair) Reached(string) Peer                              { return p.peer }
func (p *pair) Unseen(string) bool                               { return false }
func (p *pair) Down(string) bool                                 { return false }
func (p *pair) State(string) TaskState                           { return TaskState{State: view.StateUp} }
func (p *pair) Watch(func(string, error))                        {}

// played is a peer that only receives messages.
type played struct {
	name  string
	takes func(m *wire.Parcel, sender *actor.PID)
}

func (p *played) Task() string                    { return p.name }
func (p *played) Address() string                 { return p.name }
func (p *played) Boot() uint64                    { return 1 }
func (p *played) Devices() []device.Attributes    { return nil }
func (p *played) Hold() func()                    { return func() {} }
func (p *played) Push(Push) error                 { return status.Internalf("not in this benchmark") }
func (p *played) OnDown(func(error)) func()       { return func() {} }
func (p *played) Room(int, func()) bool           { return true }
func (*played) SendSystemMessage(*actor.PID, any) {}
func (*played) Stop(*actor.PID)                   {}

func (p *played) SendUserMessage(_ *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	if parcel, ok := m.(*wire.Parcel); ok {
		p.takes(parcel, sender)
	}
}

// start starts the task of a job. Its peer is a task of another job, played by takes.
func (p *pair) start(b *testing.B, job, other string, takes func(m *wire.Parcel, sender *actor.PID)) *Task {
	p.self, p.other = taskName(job), taskName(other)
	peer := &played{p.other, takes}
	p.peer = peer
	system := actor.NewActorSystem()
	system.ProcessRegistry.Address = p.self
	system.ProcessRegistry.RegisterAddressResolver(func(*actor.PID) (actor.Process, bool) { return peer, true })
	device := devices.NewCPU(system, p.self+"/device:CPU:0", job, 0)
	task, err := NewTask(Config{System: system, Cluster: p, Devices: []devices.Device{device}, Boot: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := task.Stop(context.Background()); err != nil {
			b.Error(err)
		}
		system.Shutdown()
	})
	return task
}

// BenchmarkAcross runs the two ends of a step that sends a small tensor to another task, without the transport between them.
func BenchmarkAcross(b *testing.B) {
	var first *wire.RunPartition // with the plan
	var edge []*wire.Transfer
	b.Run("master", func(b *testing.B) {
		var cluster pair
		var task *Task
		task = cluster.start(b, "a", "b", func(m *wire.Parcel, _ *actor.PID) {
			m.Release()
			q, ok := m.Message.(*wire.RunPartition)
			if !ok {
				return
			}
			if q.Plan != nil {
				first, edge = q, q.Transfers
			}
			task.master.Send(&wire.Parcel{Message: &wire.PartitionDone{Step: q.Step, Task: cluster.other}})
		})
		handle, err := task.CreateSession(context.Background(), 0, everything, kernelstest.GraphDef(b, "x = Placeholder() @a0\ny = Neg(x) @b0"), nil)
		if err != nil {
			b.Fatal(err)
		}
		s, err := task.Session(handle, 0)
		if err != nil {
			b.Fatal(err)
		}
		req := &StepRequest{Feeds: []Feed{{"x:0", kernelstest.I64(kernelstest.S(3), 1, 2, 3)}}, Targets: []string{"y"}}
		defer req.done()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Run(context.Background(), req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("worker", func(b *testing.B) {
		if first == nil {
			b.Skip("it needs the plan that the master made")
		}
		var cluster pair
		done := make(chan struct{}, 1)
		task := cluster.start(b, "b", "a", func(m *wire.Parcel, _ *actor.PID) {
			if err := m.Message.(*wire.PartitionDone).Failure.Err(); err != nil {
				b.Error(err)
			}
			m.Release()
			done <- struct{}{}
		})
		sender := actor.NewPID(cluster.other, masterName)
		v := kernelstest.I64(kernelstest.S(3), 1, 2, 3)
		defer v.Release()
		run := func(m *wire.RunPartition) {
			p := &wire.Parcel{Message: m, Tensors: []*tensor.Tensor{v.Retain()}}
			task.worker.Send(&actor.MessageEnvelope{Message: p, Sender: sender})
			<-done
		}
		run(first)
		m := &wire.RunPartition{Step: 1 << 40, Session: first.Session, PlanId: first.PlanId, Master: first.Master, Boot: first.Boot, Transfers: edge}
		b.ReportAllocs()
		for b.Loop() {
			m.Step++
			run(m)
		}
	})
}

// BenchmarkLookup finds a step's session and its plan.
func BenchmarkLookup(b *testing.B) {
	task := alone{}.task(b)
	handle, err := task.CreateSession(context.Background(), 0, everything, kernelstest.GraphDef(b, smallSteps[2].graph), nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := task.Session(handle, 0)
	if err != nil {
		b.Fatal(err)
	}
	req := &StepRequest{Feeds: []Feed{{"x:0", kernelstest.I64(kernelstest.S(3), 1, 2, 3)}}, Fetches: []string{"y:0"}}
	defer req.done()
	r, err := s.Run(context.Background(), req)
	if err != nil {
		b.Fatal(err)
	}
	r.Release()
	b.ReportAllocs()
	for b.Loop() {
		s, err := task.Session(handle, 0)
		if err != nil {
			b.Fatal(err)
		}
		var room [256]byte
		p, _ := s.ready(req.appendKey(room[:0]))
		p.local.release()
	}
}

// BenchmarkEagerOp runs an op of an eager context on two of its tensors, and releases the result: what Troupe itself adds to the cost of an
// Enqueue.
func BenchmarkEagerOp(b *testing.B) {
	c, err := alone{}.task(b).CreateEagerContext(b.Context(), 0, everything, EagerSpec{ID: 1, Task: eagerTask})
	if err != nil {
		b.Fatal(err)
	}
	client := &eagerClient{EagerContext: c, t: b}
	client.send(1, 1, 2)
	add := op(2, "AddV2", attr("T", "type: DT_FLOAT"), "1:0", "1:0")
	sum := handle("2:0")
	b.ReportAllocs()
	for b.Loop() {
		client.run(add)
		if err := c.Decref(sum); err != nil {
			b.Fatal(err)
		}
	}
}
