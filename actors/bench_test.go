package actors

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
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

// BenchmarkRun is a step that stays on its task, from the session on: what Troupe itself adds to
// the cost of a RunStep.
func BenchmarkRun(b *testing.B) {
	system := actor.NewActorSystem()
	defer system.Shutdown()
	device := devices.NewCPU(system, alone{}.Self()+"/device:CPU:0", "local", 0)
	task, err := NewTask(Config{System: system, Cluster: alone{}, Devices: []*devices.CPU{device}})
	if err != nil {
		b.Fatal(err)
	}
	defer task.Stop(context.Background())
	def := &graphpb.GraphDef{Node: []*nodepb.NodeDef{{Name: "no_op", Op: "NoOp"}}}
	handle, err := task.CreateSession(context.Background(), 0, def, nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := task.Session(handle, 0)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req := &StepRequest{Targets: []string{"no_op"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(ctx, req); err != nil {
			b.Fatal(err)
		}
	}
}
