// Package gateway serves tensorflow.MasterService, the protocol of TensorFlow's sessions, for the master of a task. It decodes requests,
// finds the session, and answers in the form that TensorFlow's client expects.
package gateway

import (
	"cmp"
	"context"
	"strings"
	"sync"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// Declared starts clusters that clients declare with their sessions (ConfigProto.cluster_def).
type Declared interface {
	// Open returns the task that is the master of a client's session. target is what the client connected to. The gateway calls opened with
	// the session's handle once it is open, or with "" if it does not open.
	Open(ctx context.Context, by Declarer, cluster *corepb.ClusterDef, target string) (task *actors.Task, opened func(handle string), err error)
	// Tasks returns the masters that may have such sessions; callers must not modify the list.
	Tasks() []*actors.Task
	// Explain returns why a session was ended before its client closed it, instead of err, the error of a call with its handle. It returns err
	// if nothing is known of the handle.
	Explain(handle string, err error) error
	// Forget drops what Explain knows of a session, and reports whether there was anything.
	Forget(handle string) bool
}

// Gateway is the service. Its methods are safe for concurrent use.
type Gateway struct {
	task     *actors.Task
	declared Declared
	guard    *access.Guard // nil: no restrictions
	answers  answers
	steps    sync.Pool // of *runStepRequest, for reuse
}

// Inline lists the methods that may run on the goroutine that reads their client's connection: they call port.Detach before they wait or
// compute for long.
var Inline = []string{"/tensorflow.MasterService/RunStep", "/tensorflow.MasterService/RunCallable"}

// New returns the service of a task. guard may be nil.
func New(task *actors.Task, declared Declared, guard *access.Guard) *Gateway {
	g := &Gateway{task: task, declared: declared, guard: guard}
	g.answers.init()
	return g
}

// Close drops the answers that are kept for retries.
func (g *Gateway) Close() { g.answers.close() }

// connectionOf returns the connection of the calling client.
func connectionOf(ctx context.Context) actors.Connection {
	return actors.Connection(port.ConnectionOf(ctx))
}

// Service returns the service, under its name on the wire, which lacks the package that TensorFlow's master_service.proto declares.
func (g *Gateway) Service() http2.Service {
	return http2.Service{Name: "tensorflow.MasterService", Methods: map[string]http2.Handler{
		"CreateSession":   wire.Unary(nil, g.createSession),
		"ExtendSession":   wire.Unary(nil, g.extendSession),
		"PartialRunSetup": wire.Unary(nil, g.partialRunSetup),
		"RunStep":         wire.UnaryOf(g.takeStep, nil, g.runStep),
		"CloseSession":    wire.Unary(nil, g.closeSession),
		"ListDevices":     wire.Unary(nil, g.listDevices),
		"Reset":           wire.Unary(nil, g.reset),
		"MakeCallable":    wire.Unary(nil, g.makeCallable),
		"RunCallable":     wire.UnaryOf(func() *runCallableRequest { return &runCallableRequest{gateway: g} }, nil, g.runCallable),
		"ReleaseCallable": wire.Unary(nil, g.releaseCallable),
	}}
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
		by, err := caller.Declarer(ctx)
		if err != nil {
			return nil, err
		}
		declared, opened, err := g.declared.Open(ctx, by, cluster, q.Target)
		if err != nil {
			return nil, err
		}
		defer func() { opened(handle) }()
		task, q.Config.ClusterDef = declared, nil
		q.Config.IsolateSessionState = true // as TensorFlow's masters do, unless the session shares its state
	}
	rights, err := caller.SessionRights(ctx)
	if err != nil {
		return nil, err
	}
	handle, err = task.CreateSession(ctx, connectionOf(ctx), rights, q.GraphDef, q.Config)
	Opened(rights, handle, err)
	if err != nil {
		return nil, err
	}
	return &corepb.CreateSessionResponse{SessionHandle: handle}, nil
}

// mayUse rejects a call about a session that its caller may not use.
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

// judged records that a session's policy has refused what a call asked to run.
func (g *Gateway) judged(ctx context.Context, handle string, err error) error {
	if g.guard == nil || status.CodeOf(err) != status.PermissionDenied {
		return err
	}
	c, unknown := CallerOf(ctx, g.guard)
	if unknown != nil {
		return unknown
	}
	return c.Judged("run", handle, err)
}

// session returns the session of a call if the caller may use it.
func (g *Gateway) session(ctx context.Context, handle string) (*actors.Session, error) {
	if err := g.mayUse(ctx, handle); err != nil {
		return nil, err
	}
	return g.admitted(ctx, handle)
}

// admitted returns a session that the caller is known to be allowed to use.
func (g *Gateway) admitted(ctx context.Context, handle string) (*actors.Session, error) {
	s, err := g.taskOf(handle).Session(handle, connectionOf(ctx))
	if err != nil {
		return nil, g.declared.Explain(handle, err)
	}
	return s, nil
}

// taskOf returns the master of a session: the server's own task, except for sessions of declared clusters.
func (g *Gateway) taskOf(handle string) *actors.Task {
	for _, t := range g.declared.Tasks() {
		if t.Knows(handle) {
			return t
		}
	}
	return g.task
}

// feedMemory returns the pool into which a session's feeds are decoded; nil if the session is unknown.
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
	q.Detach = port.DetachUntilCancel
	// Before the lookup of answers: a kept answer is only for callers that may use the session.
	if err := g.mayUse(ctx, q.session); err != nil {
		return q.failed(err)
	}
	result, err := g.answers.once(ctx, answerKey{q.session, q.requestID, hashFetches(q.Fetches), hashRest(&q.given, &q.StepRequest)}, func() (*actors.StepResult, error) {
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
	q.response = runStepResponse{request: q, ctx: ctx, result: result}
	return &q.response, nil
}

// failed answers a step with its error, in the form that the client requested.
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
		return &corepb.CloseSessionResponse{}, nil // already ended
	}
	return &corepb.CloseSessionResponse{}, g.taskOf(q.SessionHandle).CloseSession(ctx, q.SessionHandle)
}

func (g *Gateway) listDevices(ctx context.Context, q *corepb.ListDevicesRequest) (*corepb.ListDevicesResponse, error) {
	if err := g.mayList(ctx, q.SessionHandle); err != nil {
		return nil, err
	}
	devices, err := g.taskOf(q.SessionHandle).ListDevices(ctx, q.SessionHandle)
	if err != nil {
		return nil, g.declared.Explain(q.SessionHandle, err)
	}
	caller, err := CallerOf(ctx, g.guard)
	if err != nil {
		return nil, err
	}
	a := &corepb.ListDevicesResponse{}
	for _, d := range devices {
		switch {
		case !caller.Rights().ShowsDevice(d.Name):
		case d.Local:
			a.LocalDevice = append(a.LocalDevice, d.Proto())
		default:
			a.RemoteDevice = append(a.RemoteDevice, d.Proto())
		}
	}
	return a, nil
}

// mayList rejects a caller that may neither use the session nor list the server's state.
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

func (g *Gateway) reset(ctx context.Context, q *corepb.ResetRequest) (*corepb.ResetResponse, error) {
	caller, err := CallerOf(ctx, g.guard)
	if err != nil {
		return nil, err
	}
	return &corepb.ResetResponse{}, g.Reset(ctx, &caller, caller.NameOf(ctx), q.Container)
}

// Reset empties containers on all tasks of the cluster, the default ones if no names are given, if the caller may. It closes those of the
// task's sessions that the caller may close. by names the caller for other people.
func (g *Gateway) Reset(ctx context.Context, caller *Caller, by string, containers []string) error {
	err := caller.mayReset(containers, g.task.Cluster.Tasks())
	if err != nil {
		return err
	}
	caller.Act("reset", strings.Join(containers, " "))
	err = g.task.Reset(ctx, containers, by, caller.ends())
	for _, t := range g.declared.Tasks() {
		err = cmp.Or(err, t.Reset(ctx, containers, by, caller.ends()))
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
	result, err := g.answers.once(ctx, answerKey{q.session, q.requestID, uint64(q.handle), q.given}, func() (*actors.StepResult, error) {
		s, err := g.admitted(ctx, q.session)
		if err == nil {
			err = q.invalid
		}
		if err != nil {
			return nil, err
		}
		result, err := s.RunCallable(ctx, q.handle, q.feeds, port.DetachUntilCancel)
		return sendable(nil, result, err)
	})
	if err != nil {
		return nil, g.declared.Explain(q.session, g.judged(ctx, q.session, err))
	}
	return &runCallableResponse{ctx: ctx, result: result}, nil
}

func (g *Gateway) releaseCallable(ctx context.Context, q *corepb.ReleaseCallableRequest) (*corepb.ReleaseCallableResponse, error) {
	s, err := g.session(ctx, q.SessionHandle)
	if err != nil {
		return nil, err
	}
	s.ReleaseCallable(q.Handle)
	return &corepb.ReleaseCallableResponse{}, nil
}
