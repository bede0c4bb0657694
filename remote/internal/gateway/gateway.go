// Package gateway serves tensorflow.MasterService, the protocol of TensorFlow's sessions, for the master of a
// task. It decodes requests, finds the session, and answers in the form that TensorFlow's client expects.
package gateway

import (
	"cmp"
	"context"
	"sync"

	devicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"google.golang.org/grpc"
)

// Declared makes clusters that clients declare with their sessions (ConfigProto.cluster_def).
type Declared interface {
	// Open gives the task that is the session's master. target is what the client connected to. opened is called
	// with the session's handle when it is open, and with "" if it is not to be.
	Open(ctx context.Context, cluster *corepb.ClusterDef, target string) (task *actors.Task, opened func(handle string), err error)
	// Tasks are the masters of such sessions that there may be; the list must not be changed.
	Tasks() []*actors.Task
	// Explain gives why a session was ended before its client closed it, in place of the error that a call with its
	// handle led to; err if nothing is known of the handle.
	Explain(handle string, err error) error
	// Forget gives up what Explain knows of a session, and tells whether there was anything.
	Forget(handle string) bool
}

// Gateway is the service. Its methods may be called concurrently.
type Gateway struct {
	task     *actors.Task
	declared Declared
	pool     *tensor.Pool
	answers  answers
	steps    sync.Pool // of *runStepRequest, whose memory is used again
}

// Inline are the methods that may run on the goroutine which reads their client's connection: they call
// port.Detach before they wait or compute for long.
var Inline = []string{"/tensorflow.MasterService/RunStep", "/tensorflow.MasterService/RunCallable"}

// New makes the service of a task.
func New(task *actors.Task, declared Declared) *Gateway {
	g := &Gateway{task: task, declared: declared, pool: task.Devices[0].Pool()}
	g.answers.init()
	return g
}

// Close gives up what is kept for clients that repeat a request.
func (g *Gateway) Close() { g.answers.close() }

// connectionOf is the connection of the client that makes a call.
func connectionOf(ctx context.Context) actors.Connection {
	return actors.Connection(port.ConnectionOf(ctx))
}

// unary describes a method whose request is a protobuf message.
func unary[Q, A any](name string, call func(*Gateway, context.Context, *Q) (*A, error)) grpc.MethodDesc {
	return method(name, func(*Gateway) *Q { return new(Q) }, call)
}

func method[Q, A any](name string, request func(*Gateway) *Q, call func(*Gateway, context.Context, *Q) (*A, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		g := srv.(*Gateway)
		q := request(g)
		if err := decode(q); err != nil {
			return nil, err
		}
		a, err := call(g, ctx, q)
		if err != nil {
			return nil, wire.ToGRPC(err)
		}
		return a, nil
	}}
}

// Desc describes the service. The name is that of the wire: the package that TensorFlow's
// master_service.proto declares is not in it.
var Desc = &grpc.ServiceDesc{
	ServiceName: "tensorflow.MasterService",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		unary("CreateSession", (*Gateway).createSession),
		unary("ExtendSession", (*Gateway).extendSession),
		unary("PartialRunSetup", (*Gateway).partialRunSetup),
		method("RunStep", (*Gateway).takeStep, (*Gateway).runStep),
		unary("CloseSession", (*Gateway).closeSession),
		unary("ListDevices", (*Gateway).listDevices),
		unary("Reset", (*Gateway).reset),
		unary("MakeCallable", (*Gateway).makeCallable),
		method("RunCallable", func(g *Gateway) *runCallableRequest { return &runCallableRequest{pool: g.pool} }, (*Gateway).runCallable),
		unary("ReleaseCallable", (*Gateway).releaseCallable),
	},
	Metadata: "tensorflow/core/protobuf/master_service.proto",
}

func (g *Gateway) createSession(ctx context.Context, q *corepb.CreateSessionRequest) (*corepb.CreateSessionResponse, error) {
	task := g.task
	var handle string
	if cluster := q.GetConfig().GetClusterDef(); len(cluster.GetJob()) > 0 {
		declared, opened, err := g.declared.Open(ctx, cluster, q.Target)
		if err != nil {
			return nil, err
		}
		defer func() { opened(handle) }()
		task, q.Config.ClusterDef = declared, nil
	}
	var err error
	handle, err = task.CreateSession(ctx, connectionOf(ctx), q.GraphDef, q.Config)
	if err != nil {
		return nil, err
	}
	return &corepb.CreateSessionResponse{SessionHandle: handle}, nil
}

func (g *Gateway) session(ctx context.Context, handle string) (*actors.Session, error) {
	s, err := g.taskOf(handle).Session(handle, connectionOf(ctx))
	if err != nil {
		return nil, g.declared.Explain(handle, err)
	}
	return s, nil
}

// taskOf is the master of a session: the server's own task, but for sessions of declared clusters.
func (g *Gateway) taskOf(handle string) *actors.Task {
	for _, t := range g.declared.Tasks() {
		if t.Knows(handle) {
			return t
		}
	}
	return g.task
}

func (g *Gateway) extendSession(ctx context.Context, q *corepb.ExtendSessionRequest) (*corepb.ExtendSessionResponse, error) {
	s, err := g.session(ctx, q.SessionHandle)
	if err != nil {
		return nil, err
	}
	version, err := s.Extend(ctx, q.GraphDef, q.CurrentGraphVersion)
	if err != nil {
		return nil, err
	}
	return &corepb.ExtendSessionResponse{NewGraphVersion: version}, nil
}

func (g *Gateway) partialRunSetup(ctx context.Context, q *corepb.PartialRunSetupRequest) (*corepb.PartialRunSetupResponse, error) {
	s, err := g.session(ctx, q.SessionHandle)
	if err != nil {
		return nil, err
	}
	handle, err := s.PartialSetup(ctx, q.Feed, q.Fetch, q.Target)
	if err != nil {
		return nil, err
	}
	return &corepb.PartialRunSetupResponse{PartialRunHandle: handle}, nil
}

func (g *Gateway) runStep(ctx context.Context, q *runStepRequest) (*runStepResponse, error) {
	defer q.releaseFeeds()
	q.Detach = port.Detach
	result, err := g.answers.once(ctx, answerKey{q.session, q.requestID, hashFetches(q.Fetches)}, func() (*actors.StepResult, error) {
		s, err := g.session(ctx, q.session)
		if err == nil {
			err = q.invalid
		}
		if err != nil {
			return nil, err
		}
		result, err := s.Run(ctx, &q.StepRequest)
		return sendable(q.Fetches, result, err)
	})
	if err != nil {
		err = g.declared.Explain(q.session, err)
		if q.inBody {
			q.response = runStepResponse{request: q, err: err}
			return &q.response, nil
		}
		return nil, err
	}
	q.response = runStepResponse{request: q, result: result}
	return &q.response, nil
}

func (g *Gateway) closeSession(ctx context.Context, q *corepb.CloseSessionRequest) (*corepb.CloseSessionResponse, error) {
	if g.declared.Forget(q.SessionHandle) {
		return &corepb.CloseSessionResponse{}, nil // it was ended already
	}
	return &corepb.CloseSessionResponse{}, g.taskOf(q.SessionHandle).CloseSession(ctx, q.SessionHandle)
}

func (g *Gateway) listDevices(ctx context.Context, q *corepb.ListDevicesRequest) (*corepb.ListDevicesResponse, error) {
	own, others, err := g.taskOf(q.SessionHandle).ListDevices(ctx, q.SessionHandle)
	if err != nil {
		return nil, g.declared.Explain(q.SessionHandle, err)
	}
	return &corepb.ListDevicesResponse{LocalDevice: attributes(own), RemoteDevice: attributes(others)}, nil
}

func attributes(devices []actors.DeviceInfo) []*devicepb.DeviceAttributes {
	out := make([]*devicepb.DeviceAttributes, len(devices))
	for i, d := range devices {
		out[i] = &devicepb.DeviceAttributes{Name: d.Name, DeviceType: d.Type, MemoryLimit: d.MemoryLimit,
			Incarnation: d.Incarnation, PhysicalDeviceDesc: d.Description, Locality: &devicepb.DeviceLocality{}}
	}
	return out
}

func (g *Gateway) reset(ctx context.Context, q *corepb.ResetRequest) (*corepb.ResetResponse, error) {
	err := g.task.Reset(ctx, q.Container)
	for _, t := range g.declared.Tasks() {
		err = cmp.Or(err, t.Reset(ctx, q.Container))
	}
	return &corepb.ResetResponse{}, err
}

func (g *Gateway) makeCallable(ctx context.Context, q *corepb.MakeCallableRequest) (*corepb.MakeCallableResponse, error) {
	s, err := g.session(ctx, q.SessionHandle)
	if err != nil {
		return nil, err
	}
	handle, err := s.MakeCallable(ctx, q.Options)
	if err != nil {
		return nil, err
	}
	return &corepb.MakeCallableResponse{Handle: handle}, nil
}

func (g *Gateway) runCallable(ctx context.Context, q *runCallableRequest) (*runCallableResponse, error) {
	defer q.release()
	result, err := g.answers.once(ctx, answerKey{q.session, q.requestID, uint64(q.handle)}, func() (*actors.StepResult, error) {
		s, err := g.session(ctx, q.session)
		if err == nil {
			err = q.invalid
		}
		if err != nil {
			return nil, err
		}
		result, err := s.RunCallable(ctx, q.handle, q.feeds, port.Detach)
		return sendable(nil, result, err)
	})
	if err != nil {
		return nil, g.declared.Explain(q.session, err)
	}
	return &runCallableResponse{result: result}, nil
}

func (g *Gateway) releaseCallable(ctx context.Context, q *corepb.ReleaseCallableRequest) (*corepb.ReleaseCallableResponse, error) {
	s, err := g.session(ctx, q.SessionHandle)
	if err != nil {
		return nil, err
	}
	s.ReleaseCallable(q.Handle)
	return &corepb.ReleaseCallableResponse{}, nil
}
