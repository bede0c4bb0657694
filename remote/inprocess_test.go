package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

func TestMain(m *testing.M) {
	// A probe of memberlist that is in flight at the stop ends with its own timeout, some seconds later.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// twoNodes returns the two tasks of a cluster, both in this process.
func twoNodes(t *testing.T, noLending bool) [2]*Node {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var nodes [2]*Node
	addresses := spectest.Addresses(t, len(nodes))
	s, err := spec.New(map[string]map[int]string{"w": {0: addresses[0], 1: addresses[1]}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		if nodes[i], err = Listen(Config{Spec: s, Job: "w", Task: i, NoLending: noLending, Log: log}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := nodes[i].Stop(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, n := range nodes {
		if err := n.Serve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// TestHealth checks that health probes learn whether a task serves.
func TestHealth(t *testing.T) {
	n := twoNodes(t, false)[0]
	state := func(service string) healthpb.HealthCheckResponse_ServingStatus {
		t.Helper()
		a := &healthpb.HealthCheckResponse{}
		if err := port.Caller(nil, nil)(t.Context(), n.Address(), healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{Service: service}, a); err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	for _, service := range []string{"", "tensorflow.MasterService", "troupe.v1.Operator", "grpc.health.v1.Health"} {
		if st := state(service); st != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("%q is %v", service, st)
		}
	}
	// A node that stops first reports to watchers that it drains, and then that it ends.
	c, err := grpc.NewClient("passthrough:///"+n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := healthpb.NewHealthClient(c).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "tensorflow.MasterService"})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := w.Recv(); err != nil || a.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", a, err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(t.Context()) }()
	if a, err := w.Recv(); err != nil || a.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := w.Recv(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// there is a graph of which everything but the feeds is on the second task.
func there() *graphpb.GraphDef {
	float := &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: typespb.DataType_DT_FLOAT}}
	shape := &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: &shapepb.TensorShapeProto{UnknownRank: true}}}
	of, typed := map[string]*attrpb.AttrValue{"dtype": float, "shape": shape}, map[string]*attrpb.AttrValue{"T": float}
	const second = "/job:w/task:1"
	return &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 2474}, Node: []*nodepb.NodeDef{
		{Name: "x", Op: "Placeholder", Attr: of, Device: "/job:w/task:0"},
		{Name: "same", Op: "Identity", Input: []string{"x"}, Attr: typed, Device: second},
		{Name: "total", Op: "VariableV2", Attr: of, Device: second},
		{Name: "init", Op: "Assign", Input: []string{"total", "x"}, Device: second,
			Attr: map[string]*attrpb.AttrValue{"T": float, "validate_shape": {Value: &attrpb.AttrValue_B{}}}},
		{Name: "add", Op: "AssignAdd", Input: []string{"total", "x"}, Attr: typed, Device: second},
		{Name: "now", Op: "Identity", Input: []string{"total"}, Attr: typed, Device: second},
	}}
}

// TestTasksOfAProcess checks that a tensor that goes to another task of the process and comes back is the one that was fed, whatever its
// size, and that variables that share its memory do not change it. With lending off, everything is sent.
func TestTasksOfAProcess(t *testing.T) {
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent=%v", sent), func(t *testing.T) {
			host := tensor.Host.Stats().InUse
			nodes := twoNodes(t, sent)
			handle, err := nodes[0].Task().CreateSession(t.Context(), 0, actors.Rights{}, there(), &corepb.ConfigProto{})
			if err != nil {
				t.Fatal(err)
			}
			session, err := nodes[0].Task().Session(handle, 0)
			if err != nil {
				t.Fatal(err)
			}
			run := func(x *tensor.Tensor, fetch string) *tensor.Tensor {
				t.Helper()
				r := &actors.StepRequest{Fetches: []string{fetch}}
				if x != nil {
					r.Feeds = []actors.Feed{{Name: "x:0", Tensor: x}}
				}
				got, err := session.Run(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				return got.Tensors[0]
			}
			crossed := 0
			for _, n := range []int64{16 << 20, 64 << 10, 1 << 10, 8} {
				x, err := tensor.Zeros(tensor.Host, tensor.Float32, tensor.Shape{n})
				if err != nil {
					t.Fatal(err)
				}
				tensor.Of[float32](x)[7] = 7
				was := bytes.Clone(x.Data())
				for range 3 {
					same := run(x, "same:0")
					if !bytes.Equal(same.Data(), was) || (&same.Data()[0] == &x.Data()[0]) == sent {
						t.Errorf("%d elements came back as others, or in other memory", n)
					}
					same.Release()
				}
				crossed += 6
				first := run(x, "init:0")
				second := run(x, "add:0")
				third := run(nil, "now:0")
				crossed += 5
				for i, v := range []*tensor.Tensor{x, first, second, third} {
					want := float32(7 * (1 + i/2))
					if got := tensor.Of[float32](v)[7]; got != want {
						t.Errorf("%d elements: tensor %d has %v for %v", n, i, got, want)
					}
				}
				for _, v := range []*tensor.Tensor{first, second, third, x} {
					v.Release()
				}
			}
			for i, n := range nodes {
				s := n.Links().Stats()
				if moved := s.BytesSent + s.BytesReceived + s.BytesCopied + s.BytesLent + s.BytesRead; (moved > 0) != sent {
					t.Errorf("task %d: %+v", i, s)
				}
				crossed -= int(s.TensorsHanded)
			}
			if !sent && crossed != 0 {
				t.Errorf("%d tensors less were handed over than have crossed", crossed)
			}
			for _, n := range nodes {
				if err := n.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				if used := n.task.Devices[0].Pool().Stats().InUse; used != 0 {
					t.Errorf("%d bytes of the memory of %s are in use", used, n.Self())
				}
			}
			if used := tensor.Host.Stats().InUse; used != host {
				t.Errorf("%d bytes of the host's memory are in use", used-host)
			}
		})
	}
}
