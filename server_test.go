package troupe

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
)

var silent = WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))

func localServer(t *testing.T, opts ...Option) *Server {
	t.Helper()
	s, err := NewLocalServer(t.Context(), append([]Option{silent}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Errorf("%s did not stop in order: %v", s.Task(), err)
	}
}

// parallel lets a test with servers run beside others. Under the race detector it does not: the actor library writes gRPC's logger when it binds a port,
// which servers that run in the same process read.
func parallel(t *testing.T) {
	t.Helper()
	if !extent.RaceDetector {
		t.Parallel()
	}
}

// startAtOnce starts tasks of one cluster: one after another, each would wait for those that do not answer yet.
func startAtOnce(t *testing.T, tasks []*Server) {
	t.Helper()
	var started errgroup.Group
	for _, s := range tasks {
		started.Go(func() error { return s.Start(t.Context()) })
	}
	if err := started.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestLocalServer(t *testing.T) {
	s := localServer(t)
	if s.Task() != "/job:local/replica:0/task:0" || !strings.HasPrefix(s.Target(), "grpc://localhost:") || strings.HasSuffix(s.Target(), ":0") {
		t.Errorf("%s at %s", s.Task(), s.Target())
	}
	want := &corepb.ServerDef{JobName: "local", Protocol: "grpc",
		Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "local", Tasks: map[int32]string{0: "localhost:0"}}}}}
	if !proto.Equal(s.ServerDef(), want) {
		t.Errorf("its ServerDef is %v", s.ServerDef())
	}
	st := s.Status()
	if len(st) != 1 || st[0].State != "up" || st[0].Address != s.Address() || len(st[0].Devices) != 1 {
		t.Errorf("its status is %+v", st)
	}
}

func TestServersLife(t *testing.T) {
	s := localServer(t, WithStart(false))
	if _, err := s.NewSession(t.Context(), nil, nil); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "has not been started") {
		t.Errorf("a session before the start: %v", err)
	}
	where := s.Target()
	if where == "grpc://localhost:0" || s.Status() != nil || s.Trim() != 0 {
		t.Errorf("before the start it is at %s", where)
	}
	for range 2 { // the second changes nothing
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Target() != where {
		t.Errorf("the start moved it from %s to %s", where, s.Target())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Join(ctx); status.CodeOf(err) != status.Cancelled {
		t.Errorf("Join of a server that runs, without patience: %v", err)
	}
	joined := make(chan error, 1)
	go func() { joined <- s.Join(t.Context()) }()
	for range 2 {
		stop(t, s)
	}
	if err := <-joined; err != nil {
		t.Errorf("Join: %v", err)
	}
	if err := s.Start(t.Context()); status.CodeOf(err) != status.FailedPrecondition || err.Error() != "Server has stopped." {
		t.Errorf("a second start: %v", err)
	}
	if _, err := s.NewSession(t.Context(), nil, nil); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a session after the stop: %v", err)
	}
	l, err := net.Listen("tcp", strings.TrimPrefix(where, "grpc://"))
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	l.Close()
}

func TestServerThatIsNeverStarted(t *testing.T) {
	s := localServer(t, WithStart(false))
	stop(t, s)
	l, err := net.Listen("tcp", s.Address())
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	l.Close()
	if err := s.Join(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTakenPort(t *testing.T) {
	parallel(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_, err = NewServer(t.Context(), ClusterSpec{"local": {address}}, silent)
	if status.CodeOf(err) != status.Unknown || !strings.HasPrefix(err.Error(), "Could not start gRPC server at "+address+": port "+port+" is taken.") ||
		!strings.Contains(err.Error(), "another port in the cluster spec") {
		t.Errorf("%v: %v", status.CodeOf(err), err)
	}
}

func TestDeviceCount(t *testing.T) {
	s := localServer(t, WithMemoryLimit(1<<30), WithConfig(&corepb.ConfigProto{DeviceCount: map[string]int32{"CPU": 3, "GPU": 1}, GpuOptions: &corepb.GPUOptions{}}))
	devices := s.Status()[0].Devices
	if len(devices) != 3 || devices[2].Name != "/job:local/replica:0/task:0/device:CPU:2" || devices[2].MemoryLimit != 1<<30 {
		t.Errorf("%+v", devices)
	}
}

// accumulator is a graph with the variable total, init that zeroes it and add that adds what x is fed.
func accumulator() *graphpb.GraphDef {
	float := &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: typespb.DataType_DT_FLOAT}}
	scalar := &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: &shapepb.TensorShapeProto{}}}
	zero := &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: &tensorpb.TensorProto{Dtype: typespb.DataType_DT_FLOAT,
		TensorShape: &shapepb.TensorShapeProto{}, TensorContent: binary.LittleEndian.AppendUint32(nil, math.Float32bits(0))}}}
	attr := map[string]*attrpb.AttrValue{"T": float}
	return &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 2474}, Node: []*nodepb.NodeDef{
		{Name: "total", Op: "VariableV2", Attr: map[string]*attrpb.AttrValue{"dtype": float, "shape": scalar}},
		{Name: "zero", Op: "Const", Attr: map[string]*attrpb.AttrValue{"dtype": float, "value": zero}},
		{Name: "init", Op: "Assign", Input: []string{"total", "zero"}, Attr: attr},
		{Name: "x", Op: "Placeholder", Attr: map[string]*attrpb.AttrValue{"dtype": float, "shape": scalar}},
		{Name: "add", Op: "AssignAdd", Input: []string{"total", "x"}, Attr: attr},
	}}
}

func more(name string) *graphpb.GraphDef {
	float := &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: typespb.DataType_DT_FLOAT}}
	return &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: 2474}, Node: []*nodepb.NodeDef{
		{Name: name, Op: "Identity", Input: []string{"total"}, Attr: map[string]*attrpb.AttrValue{"T": float}}}}
}

// runner is what sessions in the process and over the network have in common.
type runner interface {
	Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error)
	Extend(ctx context.Context, more *graphpb.GraphDef) error
	Close(ctx context.Context) error
}

func TestSessions(t *testing.T) {
	s := localServer(t)
	c, err := client.Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for name, open := range map[string]func() (runner, error){
		"in the process":   func() (runner, error) { return s.NewSession(t.Context(), accumulator(), nil) },
		"over the network": func() (runner, error) { return c.NewSession(t.Context(), accumulator(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			session, err := open()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := session.Run(t.Context(), nil, nil, []string{"init"}); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				two := tensor.Scalar(tensor.Float32, float32(2))
				out, err := session.Run(t.Context(), map[string]*tensor.Tensor{"x:0": two}, []string{"add:0", "add:0"}, nil)
				two.Release()
				if err != nil {
					t.Fatal(err)
				}
				for j, want := range []float32{float32(2*i) + 2, float32(2*i) + 2} {
					if got := tensor.Of[float32](out[j])[0]; got != want {
						t.Errorf("result %d is %v, not %v", j, got, want)
					}
					out[j].Release()
				}
			}
			for _, name := range []string{"first", "second"} {
				if err := session.Extend(t.Context(), more(name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := session.Extend(t.Context(), more("second")); status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("a node that is there already: %v", err)
			}
			out, err := session.Run(t.Context(), nil, []string{"second:0"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := tensor.Of[float32](out[0])[0]; got != 6 {
				t.Errorf("the total is %v", got)
			}
			out[0].Release()
			if _, err := session.Run(t.Context(), nil, []string{"absent:0"}, nil); err == nil || !strings.Contains(err.Error(), "absent") {
				t.Errorf("a tensor that is not there: %v", err)
			}
			if err := session.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := session.Run(t.Context(), nil, []string{"second:0"}, nil); err == nil {
				t.Error("a closed session runs")
			}
		})
	}
}

func TestClientOfAServerThatIsGone(t *testing.T) {
	s := localServer(t)
	c, err := client.Dial(t.Context(), s.Target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	session, err := c.NewSession(t.Context(), accumulator(), nil)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(10*time.Second))
	defer cancel()
	if _, err := session.Run(ctx, nil, nil, []string{"init"}); status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), s.Target()) {
		t.Errorf("%v: %v", status.CodeOf(err), err)
	}
}

func TestTargets(t *testing.T) {
	for target, want := range map[string]string{
		"":                   "it must read grpc://host:port",
		"localhost:1":        "it must read grpc://host:port",
		"grpc://localhost":   "it has no port",
		"grpc://localhost:0": "port 0 stands for any",
	} {
		if _, err := client.Dial(t.Context(), target); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", target, err)
		}
	}
}
