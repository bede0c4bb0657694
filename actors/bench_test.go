package actors

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// alone is a cluster of one task.
type alone struct{}

func (alone) Self() string              { return "/job:local/replica:0/task:0" }
func (a alone) Tasks() []string         { return []string{a.Self()} }
func (alone) Known(string) []DeviceInfo { return nil }
func (alone) Peer(_ context.Context, task string) (Peer, error) {
	return nil, status.Internalf("no %s", task)
}
func (alone) Reached(string) Peer       { return nil }
func (alone) Watch(func(string, error)) {}

// task starts a task that is alone.
func (alone) task(b *testing.B) *Task {
	system := actor.NewActorSystem()
	device := devices.NewCPU(system, alone{}.Self()+"/device:CPU:0", "local", 0)
	task, err := NewTask(Config{System: system, Cluster: alone{}, Devices: []*devices.CPU{device}})
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

// BenchmarkRun is a step that stays on its task, from the session on: what Troupe itself adds to
// the cost of a RunStep.
func BenchmarkRun(b *testing.B) {
	for _, c := range smallSteps {
		b.Run(c.name, func(b *testing.B) {
			task := alone{}.task(b)
			handle, err := task.CreateSession(context.Background(), 0, kernelstest.GraphDef(b, c.graph), nil)
			if err != nil {
				b.Fatal(err)
			}
			s, err := task.Session(handle, 0)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req := &StepRequest{}
			if c.target != "" {
				req.Targets = []string{c.target}
			}
			if c.fetch != "" {
				req.Fetches = []string{c.fetch}
			}
			if c.feed {
				req.Feeds = []Feed{{"x:0", kernelstest.I64(kernelstest.S(3), 1, 2, 3)}}
				defer req.done()
			}
			b.ReportAllocs()
			for b.Loop() {
				r, err := s.Run(ctx, req)
				if err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
		})
	}
}
