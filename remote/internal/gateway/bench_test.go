package gateway

import (
	"context"
	"log/slog"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// alone is a cluster of one task.
type alone struct{}

func (alone) Self() string                                     { return "/job:local/replica:0/task:0" }
func (a alone) Tasks() []string                                { return []string{a.Self()} }
func (alone) Known(string) []device.Attributes                 { return nil }
func (alone) Find(context.Context, string) []device.Attributes { return nil }
func (alone) Peer(_ context.Context, task string) (actors.Peer, error) {
	return nil, status.Internalf("no %s", task)
}
func (alone) Reached(string) actors.Peer { return nil }
func (alone) Unseen(string) bool         { return false }
func (alone) Down(string) bool           { return false }
func (alone) State(string) actors.TaskState {
	return actors.TaskState{State: view.StateUp}
}
func (alone) Watch(func(string, error)) {}

// served is a gateway with a session over a graph.
type served struct {
	*Gateway
	handle string
}

func serve(t testing.TB, graph string) served {
	t.Helper()
	silent := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return silent }))
	device := devices.NewCPU(system, alone{}.Self()+"/device:CPU:0", "local", 0)
	task, err := actors.NewTask(actors.Config{System: system, Cluster: alone{}, Devices: []devices.Device{device}, Log: silent})
	if err != nil {
		t.Fatal(err)
	}
	g := New(task, undeclared{}, nil)
	t.Cleanup(func() {
		g.Close()
		if err := task.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		system.Shutdown()
		if n := device.Pool().Stats().InUse; n != 0 {
			t.Errorf("%d bytes are still in use", n)
		}
	})
	handle, err := task.CreateSession(context.Background(), 0, actors.Rights{}, kernelstest.GraphDef(t, graph), nil)
	if err != nil {
		t.Fatal(err)
	}
	return served{g, handle}
}

// step encodes a RunStepRequest. Its last bytes are an id of fixed length.
func (s served) step(t testing.TB, fed *tensor.Tensor, fetch, target string) []byte {
	t.Helper()
	text := func(b []byte, num protowire.Number, v string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
	}
	b := text(nil, 1, s.handle)
	if fed != nil {
		head, content, err := fed.AppendWire(nil)
		if err != nil {
			t.Fatal(err)
		}
		named := text(nil, 1, "x:0")
		named = protowire.AppendBytes(protowire.AppendTag(named, 2, protowire.BytesType), append(head, content...))
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), named)
	}
	if fetch != "" {
		b = text(b, 3, fetch)
	}
	if target != "" {
		b = text(b, 4, target)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 7, protowire.VarintType), 1)
	return protowire.AppendTag(b, 8, protowire.VarintType)
}

// run runs the step in a message as the transport does, but without one.
func (s served) run(ctx context.Context, message mem.BufferSlice) (mem.BufferSlice, error) {
	q := s.takeStep()
	if err := q.UnmarshalWire(message, nil); err != nil {
		return nil, err
	}
	a, err := s.runStep(ctx, q)
	if err != nil {
		return nil, err
	}
	return a.MarshalWire()
}

const smallGraph = `
	n = NoOp()
	a = Const() value=1 wide=true
	b = AddV2(a, a)
	x = Placeholder()
	y = AddV2(x, x)`

// BenchmarkRunStep measures a whole RunStep except the transport: decoding, the step, encoding.
func BenchmarkRunStep(b *testing.B) {
	fed := kernelstest.I64(kernelstest.S(3), 1, 2, 3)
	defer fed.Release()
	for _, c := range []struct {
		name, fetch, target string
		fed                 *tensor.Tensor
	}{{"no_op", "", "n", nil}, {"const_add", "b:0", "", nil}, {"fed_add", "y:0", "", fed}} {
		b.Run(c.name, func(b *testing.B) {
			s := serve(b, smallGraph)
			message := s.step(b, c.fed, c.fetch, c.target)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			id := uint64(1) << 40
			var data mem.BufferSlice
			b.ReportAllocs()
			for b.Loop() {
				id++
				whole := protowire.AppendVarint(message, id)
				data = append(data[:0], mem.SliceBuffer(whole))
				out, err := s.run(ctx, data)
				if err != nil {
					b.Fatal(err)
				}
				out.Free()
			}
		})
	}
}

// BenchmarkDecode decodes a RunStepRequest that feeds one small tensor.
func BenchmarkDecode(b *testing.B) {
	s := serve(b, smallGraph)
	fed := kernelstest.I64(kernelstest.S(3), 1, 2, 3)
	defer fed.Release()
	data := mem.BufferSlice{mem.SliceBuffer(protowire.AppendVarint(s.step(b, fed, "y:0", ""), 7))}
	b.ReportAllocs()
	for b.Loop() {
		q := s.takeStep()
		if err := q.UnmarshalWire(data, nil); err != nil {
			b.Fatal(err)
		}
		q.releaseFeeds()
		q.recycle()
	}
}

// BenchmarkEncode encodes a RunStepResponse with one small tensor.
func BenchmarkEncode(b *testing.B) {
	s := serve(b, smallGraph)
	result := &actors.StepResult{Tensors: []*tensor.Tensor{kernelstest.I64(kernelstest.S(3), 1, 2, 3)}}
	defer result.Release()
	b.ReportAllocs()
	for b.Loop() {
		q := s.takeStep()
		q.Fetches = append(q.Fetches, "y:0")
		result.Tensors[0].Retain()
		q.response = runStepResponse{request: q, result: result}
		out, err := q.response.MarshalWire()
		if err != nil {
			b.Fatal(err)
		}
		out.Free()
	}
}

// TestRequestsShareMemory checks that requests that reuse the memory of others contain nothing of them.
func TestRequestsShareMemory(t *testing.T) {
	s := serve(t, smallGraph)
	fed := kernelstest.I64(kernelstest.S(3), 1, 2, 3)
	defer fed.Release()
	id := uint64(0)
	for range 20 {
		for _, c := range []struct {
			fed           *tensor.Tensor
			fetch, target string
			want          int // bytes of the answer
		}{{nil, "", "n", 0}, {fed, "y:0", "", 1}, {nil, "b:0", "n", 1}, {nil, "y:0", "", -1}} {
			id++
			out, err := s.run(t.Context(), mem.BufferSlice{mem.SliceBuffer(protowire.AppendVarint(s.step(t, c.fed, c.fetch, c.target), id))})
			if err != nil {
				t.Fatal(err)
			}
			b := out.Materialize()
			out.Free()
			switch num, _, _ := protowire.ConsumeTag(b); {
			case c.want == 0 && len(b) != 0, c.want > 0 && num != 1, c.want < 0 && num != 3:
				t.Fatalf("%s %s: the answer is %q", c.fetch, c.target, b)
			}
		}
	}
}

// undeclared stands for clients that declare no clusters.
type undeclared struct{ Declared }

func (undeclared) Tasks() []*actors.Task             { return nil }
func (undeclared) Explain(_ string, err error) error { return err }
