// Package gateway serves tensorflow.MasterService, the protocol of TensorFlow's sessions, for the master of a
// task. It decodes requests, finds the session, and answers in the form that TensorFlow's client expects.
package gateway

import (
	"cmp"
	"context"
	"strings"
	"sync"

	devicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/access"
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
	guard    *access.Guard // nil: everybody may do everything
	answers  answers
	steps    sync.Pool // of *runStepRequest, whose memory is used again
}

// Inline are the methods that may run on the goroutine which reads their client's connection: they call
// port.Detach before they wait or compute for long.
var Inline = []string{"/tensorflow.MasterService/RunStep", "/tensorflow.MasterService/RunCallable"}

// New makes the service of a task. guard may be nil.
func New(task *actors.Task, declared Declared, guard *access.Guard) *Gateway {
	g := &Gateway{task: task, declared: declared, guard: guard}
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
		method("RunCallable", func(g *Gateway) *runCallableRequest { return &runCallableRequest{gateway: g} }, (*Gateway).runCallable),
		unary("ReleaseCallable", (*Gateway).releaseCallable),
	},
	Metadata: "tensorflow/core/protobuf/master_service.proto",
}

func (g *Gateway) createSession(ctx context.Context, q *corepb.CreateSessionRequest) (*corepb.CreateSessionResponse, error) {
	caller, err := CallerOf(ctx, g.guard)
	if err == nil {
		err = caller.May(access.OpenSessions)
	}
	if err != nil {
		return nil, err
	}
	task := g.task
	var handle string
	if cluster := q.GetConfig().GetClusterDef(); len(cluster.GetJob()) > 0 {
		if err := caller.May(access.DeclareCluster); err != nil {
			return nil, err
		}
		declared, opened, err := g.declared.Open(ctx, cluster, q.Target)
		if err != nil {
			return nil, err
		}
		defer func() { opened(handle) }()
		task, q.Config.ClusterDef = declared, nil
	}
	rights, err := caller.sessionRights(ctx)
	if err != nil {
		return nil, err
	}
	handle, err = task.CreateSession(ctx, connectionOf(ctx), rights, q.GraphDef, q.Config)
	if opened, ok := rights.Policy.(*grant); ok {
		if err != nil {
			opened.Close()
		} else {
			opened.opened(handle)
		}
	}
	if err != nil {
		return nil, err
	}
	return &corepb.CreateSessionResponse{SessionHandle: handle}, nil
}

// mayUse refuses a call about a session that its caller may not use.
func (g *Gateway) mayUse(ctx context.Context, handle string) error {
	if g.guard == nil {
		return nil
	}
	c, err := CallerOf(ctx, g.guard)
	if err != nil {
		return err
	}
	return c.mayUse(g.taskOf(handle), handle)
}

// judged records that a session's policy has refused what a call wanted to run.
func (g *Gateway) judged(ctx context.Context, handle string, err error) error {
	if g.guard == nil || status.CodeOf(err) != status.PermissionDenied {
		return err
	}
	c, unknown := CallerOf(ctx, g.guard)
	if unknown != nil {
		return unknown
	}
	return c.judged("run", handle, err)
}

// session finds the session of a call whose caller may use it.
func (g *Gateway) session(ctx context.Context, handle string) (*actors.Session, error) {
	if err := g.mayUse(ctx, handle); err != nil {
		return nil, err
	}
	return g.admitted(ctx, handle)
}

// admitted finds a session that the caller may use.
func (g *Gateway) admitted(ctx context.Context, handle string) (*actors.Session, error) {
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

// feedMemory is where a session's feeds are decoded; nil if the session is not known.
func (g *Gateway) feedMemory(handle string) *tensor.Pool { return g.taskOf(handle).FeedMemory(handle) }

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
		return nil, g.judged(ctx, q.SessionHandle, err)
	}
	return &corepb.PartialRunSetupResponse{PartialRunHandle: handle}, nil
}

func (g *Gateway) runStep(ctx context.Context, q *runStepRequest) (*runStepResponse, error) {
	defer q.releaseFeeds()
	q.Detach = port.Detach
	// Before the answers: one that is kept is for those who may use the session.
	if err := g.mayUse(ctx, q.session); err != nil {
		return q.failed(err)
	}
	result, err := g.answers.once(ctx, answerKey{q.session, q.requestID, hashFetches(q.Fetches)}, func() (*actors.StepResult, error) {
		s, err := g.admitted(ctx, q.session)
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
		return q.failed(g.declared.Explain(q.session, g.judged(ctx, q.session, err)))
	}
	q.response = runStepResponse{request: q, result: result}
	return &q.response, nil
}

// failed answers a step with its error, in the way that the client has asked for.
func (m *runStepRequest) failed(err error) (*runStepResponse, error) {
	if m.inBody {
		m.response = runStepResponse{request: m, err: err}
		return &m.response, nil
	}
	return nil, err
}

func (g *Gateway) closeSession(ctx context.Context, q *corepb.CloseSessionRequest) (*corepb.CloseSessionResponse, error) {
	if err := g.mayUse(ctx, q.SessionHandle); err != nil {
		return nil, err
	}
	if g.declared.Forget(q.SessionHandle) {
		return &corepb.CloseSessionResponse{}, nil // it was ended already
	}
	return &corepb.CloseSessionResponse{}, g.taskOf(q.SessionHandle).CloseSession(ctx, q.SessionHandle)
}

func (g *Gateway) listDevices(ctx context.Context, q *corepb.ListDevicesRequest) (*corepb.ListDevicesResponse, error) {
	if err := g.mayList(ctx, q.SessionHandle); err != nil {
		return nil, err
	}
	own, others, err := g.taskOf(q.SessionHandle).ListDevices(ctx, q.SessionHandle)
	if err != nil {
		return nil, g.declared.Explain(q.SessionHandle, err)
	}
	return &corepb.ListDevicesResponse{LocalDevice: attributes(own), RemoteDevice: attributes(others)}, nil
}

// mayList refuses to list devices to a caller that neither may use the session nor list what the server has.
func (g *Gateway) mayList(ctx context.Context, handle string) error {
	if handle != "" {
		return g.mayUse(ctx, handle)
	}
	c, err := CallerOf(ctx, g.guard)
	if err == nil {
		err = c.May(access.ListState)
	}
	return err
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
	caller, err := CallerOf(ctx, g.guard)
	if err != nil {
		return nil, err
	}
	return &corepb.ResetResponse{}, g.Reset(ctx, &caller, caller.NameOf(ctx), q.Container)
}

// Reset closes all sessions of the task and empties containers on all tasks of its cluster, without names the default ones, if the caller
// may. by names the caller to other people.
func (g *Gateway) Reset(ctx context.Context, caller *Caller, by string, containers []string) error {
	err := caller.mayReset(containers)
	if err != nil {
		return err
	}
	caller.record("reset", "", strings.Join(containers, " "), nil)
	err = g.task.Reset(ctx, containers, by)
	for _, t := range g.declared.Tasks() {
		err = cmp.Or(err, t.Reset(ctx, containers, by))
	}
	return err
}

func (g *Gateway) makeCallable(ctx context.Context, q *corepb.MakeCallableRequest) (*corepb.MakeCallableResponse, error) {
	s, err := g.session(ctx, q.SessionHandle)
	if err != nil {
		return nil, err
	}
	handle, err := s.MakeCallable(ctx, q.Options)
	if err != nil {
		return nil, g.judged(ctx, q.SessionHandle, err)
	}
	return &corepb.MakeCallableResponse{Handle: handle}, nil
}

func (g *Gateway) runCallable(ctx context.Context, q *runCallableRequest) (*runCallableResponse, error) {
	defer q.release()
	if err := g.mayUse(ctx, q.session); err != nil {
		return nil, err
	}
	result, err := g.answers.once(ctx, answerKey{q.session, q.requestID, uint64(q.handle)}, func() (*actors.StepResult, error) {
		s, err := g.admitted(ctx, q.session)
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
		return nil, g.declared.Explain(q.session, g.judged(ctx, q.session, err))
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
