package workerservice

import (
	"context"
	"log/slog"

	devpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

const (
	// name is the service's name on the wire.
	name = "tensorflow.WorkerService"
	// recvTensor is the method that fetches a tensor.
	recvTensor = "/" + name + "/RecvTensor"
	// maxRequest bounds a request in bytes; the longest part of one is a rendezvous key.
	maxRequest = 64 << 10
)

// Task is the task that the services answer for.
type Task interface {
	// Describe returns its devices.
	Describe() []device.Attributes
	// EagerRecv waits for what is sent under a rendezvous key in a step of an eager context. The caller owns the reference to v.
	EagerRecv(ctx context.Context, peer actors.EagerPeer, step int64, key string) (v *tensor.Tensor, dead bool, err error)
	// EagerStates returns why tasks of a client's cluster cannot be used.
	EagerStates(ctx context.Context, peer actors.EagerPeer, tasks []string) ([]error, error)
}

// Config holds what the services need of their task.
type Config struct {
	Task  Task
	Guard *access.Guard // nil: no restrictions
	Log   *slog.Logger
}

// service answers the calls. Its methods are safe for concurrent use.
type service struct {
	Config
	received requestIDs
}

// Register adds the services to those of a port.
func Register(services http2.Registrar, c Config) {
	s := &service{Config: c}
	s.received.init(rememberedRequests)
	worker := http2.Service{Name: name, Methods: map[string]http2.Handler{}}
	unary(s, worker, "GetStatus", s.getStatus)
	unary(s, worker, "RecvTensor", s.recvTensor)
	unary(s, worker, "MarkRecvFinished", s.markRecvFinished)
	for _, method := range []string{"CreateWorkerSession", "DeleteWorkerSession", "RegisterGraph", "DeregisterGraph", "RunGraph", "CleanupGraph", "CleanupAll",
		"RecvBuf", "Logging", "Tracing", "CompleteGroup", "CompleteInstance", "GetStepSequence"} {
		worker.Methods[method] = unimplemented(method)
	}
	services.Register(worker)
	services.Register(s.coordination())
}

// unary adds a method to a service.
func unary[Q, A any, P interface {
	*Q
	proto.Message
}](s *service, to http2.Service, method string, answer func(context.Context, *gateway.Caller, P) (*A, error)) {
	name := to.Name + "/" + method
	to.Methods[method] = func(ctx context.Context, read func(any) error) (any, error) {
		caller, err := gateway.CallerOf(ctx, s.Guard)
		if err != nil {
			return nil, wire.ToGRPC(err)
		}
		q := P(new(Q))
		if err := read(&request{name, q}); err != nil {
			return nil, err
		}
		a, err := answer(ctx, &caller, q)
		if s.Log.Enabled(ctx, slog.LevelDebug) {
			s.Log.Debug(name, "request", q, "error", err)
		}
		if err != nil {
			return nil, wire.ToGRPC(err)
		}
		return a, nil
	}
}

// unimplemented answers a method that TensorFlow's tasks have and clients do not call.
func unimplemented(method string) http2.Handler {
	return always(status.Unimplementedf("%s/%s is a call between TensorFlow's servers. Troupe's tasks run graphs together over links; clients open a session or an eager context", name, method))
}

// always answers a method that always fails.
func always(err error) http2.Handler {
	err = wire.ToGRPC(err)
	return func(context.Context, func(any) error) (any, error) { return nil, err }
}

// request is a message that is decoded only if it is small.
type request struct {
	method  string
	message proto.Message
}

// UnmarshalWire decodes the message, which is small.
func (r *request) UnmarshalWire(data mem.BufferSlice, _ func() error) error {
	if n := data.Len(); n > maxRequest {
		return wire.ToGRPC(status.Errorf(status.ResourceExhausted, "A request %s of %d bytes is too large: the limit is %d", r.method, n, maxRequest))
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	if err := proto.Unmarshal(b.ReadOnlyData(), r.message); err != nil {
		return wire.ToGRPC(status.InvalidArgumentf("The request %s is malformed: %v", r.method, err))
	}
	return nil
}

// getStatus returns the task's devices under its own names. Clients ask before they have a context, and by the incarnations of the devices
// whether the task was restarted. Who may open sessions sees them there, too.
func (s *service) getStatus(_ context.Context, caller *gateway.Caller, _ *corepb.GetStatusRequest) (*corepb.GetStatusResponse, error) {
	if r := caller.Rights(); r == nil || r.May(access.OpenSessions) != nil {
		if err := caller.May(access.ListState); err != nil {
			return nil, err
		}
	}
	var shown []*devpb.DeviceAttributes
	for _, d := range s.Task.Describe() {
		if caller.Rights().ShowsDevice(d.Name) {
			shown = append(shown, d.Proto())
		}
	}
	return &corepb.GetStatusResponse{DeviceAttributes: shown}, nil
}

// markRecvFinished has nothing to do: no answer of RecvTensor asks for it.
func (s *service) markRecvFinished(context.Context, *gateway.Caller, *corepb.MarkRecvFinishedRequest) (*corepb.MarkRecvFinishedResponse, error) {
	return &corepb.MarkRecvFinishedResponse{}, nil
}
