package eager

import (
	"context"
	"errors"
	"io"
	"log/slog"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

// Name is the service's name on the wire.
const Name = "tensorflow.eager.EagerService"

// Config holds what the service needs of its task.
type Config struct {
	Contexts Contexts
	Guard    *access.Guard // nil: no restrictions
	// Reset empties the default containers of the cluster for a client, if it may; by names the client for other people.
	Reset func(ctx context.Context, caller *gateway.Caller, by string) error
	// RequestMemory bounds the bytes of large requests that are being executed.
	RequestMemory int64
	Log           *slog.Logger
}

// Services are those of a port.
type Services interface {
	http2.Registrar
	// HandleBidi serves a method whose calls have any number of requests and answers. receive returns io.EOF after the client's last request.
	HandleBidi(method string, serve func(ctx context.Context, receive, send func(any) error) error)
}

// service answers the calls. Its methods are safe for concurrent use.
type service struct {
	Config
	requests requests
	running  running
}

// StreamingEnqueue is the method that carries the requests of a context in both directions.
const StreamingEnqueue = "/" + Name + "/StreamingEnqueue"

// Register adds the service to those of a port.
func Register(services Services, c Config) {
	s := newService(c)
	services.Register(s.methods())
	services.HandleBidi(StreamingEnqueue, s.stream)
}

func newService(c Config) *service {
	return &service{Config: c, requests: requests{limit: c.RequestMemory, of: map[string]int64{}}, running: running{of: map[uint64]map[chan struct{}]struct{}{}}}
}

func (s *service) methods() http2.Service {
	all := http2.Service{Name: Name, Methods: map[string]http2.Handler{}}
	unary(s, all, "CreateContext", s.createContext)
	unary(s, all, "UpdateContext", s.updateContext)
	unary(s, all, "Enqueue", s.enqueue)
	unary(s, all, "WaitQueueDone", s.waitQueueDone)
	unary(s, all, "RunComponentFunction", s.runComponent)
	unary(s, all, "KeepAlive", s.keepAlive)
	unary(s, all, "CloseContext", s.closeContext)
	return all
}

// inContext is a request about an eager context, which is every one.
type inContext interface {
	proto.Message
	GetContextId() uint64
}

// unary adds a method.
func unary[Q, A any, P interface {
	*Q
	inContext
}](s *service, to http2.Service, name string, answer func(context.Context, *gateway.Caller, P) (*A, error)) {
	to.Methods[name] = func(ctx context.Context, read func(any) error) (any, error) {
		q, a := P(new(Q)), (*A)(nil)
		err := s.serve(ctx, name, read, q, func(caller *gateway.Caller) (err error) {
			a, err = answer(ctx, caller, q)
			return err
		})
		if err != nil {
			return nil, err
		}
		return a, nil
	}
}

// serve reads a request and has it answered. The error is one of gRPC, or io.EOF if there is no request.
func (s *service) serve(ctx context.Context, method string, read func(any) error, q inContext, answer func(*gateway.Caller) error) error {
	caller, err := gateway.CallerOf(ctx, s.Guard)
	if err != nil {
		return toGRPC(err)
	}
	m := request{message: q, method: method, ctx: ctx, requests: &s.requests}
	defer m.release()
	if err := read(&m); err != nil {
		return err
	}
	err = answer(&caller)
	if s.Log.Enabled(ctx, slog.LevelDebug) {
		s.Log.Debug(Name+"/"+method, "context", q.GetContextId(), "bytes", m.size, "error", err)
	}
	return toGRPC(err)
}

// stream answers the requests of a StreamingEnqueue one after the other, until the client has sent the last one or a request fails. The error
// of that request ends the stream.
//
// A client does not wait for the answer of an op without outputs, and reports an error in it to nobody. As in TensorFlow, such an op succeeds,
// and its error is that of the next request.
func (s *service) stream(ctx context.Context, receive, send func(any) error) error {
	var late error
	for {
		q, a := &corepb.EnqueueRequest{}, (*corepb.EnqueueResponse)(nil)
		err := s.serve(ctx, "StreamingEnqueue", receive, q, func(caller *gateway.Caller) (err error) {
			if late != nil {
				return late
			}
			a, err = s.execute(ctx, caller, q, &late)
			return err
		})
		if err == nil {
			err = send(a)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// context returns the context that a request is about, if its caller may use it.
func (s *service) context(ctx context.Context, caller *gateway.Caller, id uint64) (Context, error) {
	judged := s.Contexts.Open(id)
	if err := s.mayUse(caller, judged); err != nil { // before the call keeps the context open
		return nil, err
	}
	c, err := s.Contexts.Context(ctx, id)
	if err == nil && (judged == nil || c.Handle() != judged.Handle()) { // it was opened meanwhile, perhaps by another client
		err = s.mayUse(caller, c)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// mayUse rejects a call about a context that its caller may not use. For a nil context, which is unknown, it returns nil: the call itself
// reports that.
func (s *service) mayUse(caller *gateway.Caller, c Context) error {
	if s.Guard == nil || c == nil {
		return nil
	}
	return caller.MayUseContext(c.Rights().Policy, c.Handle())
}

func (s *service) updateContext(ctx context.Context, caller *gateway.Caller, q *corepb.UpdateContextRequest) (*corepb.UpdateContextResponse, error) {
	c, err := s.context(ctx, caller, q.GetContextId())
	if err != nil {
		return nil, err
	}
	if q.GetServerDef() == nil {
		return &corepb.UpdateContextResponse{}, c.Update(q.GetContextViewId(), nil)
	}
	spec, err := specOf(caller, q)
	if err != nil {
		return nil, err
	}
	if err := c.Update(spec.View, spec); err != nil {
		return nil, err
	}
	return &corepb.UpdateContextResponse{DeviceAttributes: c.Devices(caller.Rights().ShowsDevice)}, nil
}

func (s *service) runComponent(ctx context.Context, caller *gateway.Caller, q *corepb.RunComponentFunctionRequest) (*corepb.RunComponentFunctionResponse, error) {
	if q.GetOperation() == nil {
		return nil, status.InvalidArgumentf("A RunComponentFunction for %s names no function", nameOf(q.GetContextId()))
	}
	c, err := s.context(ctx, caller, q.GetContextId())
	if err != nil {
		return nil, err
	}
	a, err := c.RunComponent(ctx, q)
	return a, caller.Judged("run", c.Handle(), err)
}

func (s *service) keepAlive(ctx context.Context, caller *gateway.Caller, q *corepb.KeepAliveRequest) (*corepb.KeepAliveResponse, error) {
	c, err := s.context(ctx, caller, q.GetContextId())
	if err != nil {
		return nil, err
	}
	return &corepb.KeepAliveResponse{ContextViewId: c.View()}, nil
}

// closeContext closes a context. There may be none, and a context with a newer view stays open: neither is an error, as in TensorFlow.
func (s *service) closeContext(_ context.Context, caller *gateway.Caller, q *corepb.CloseContextRequest) (*corepb.CloseContextResponse, error) {
	c := s.Contexts.Open(q.GetContextId())
	if err := s.mayUse(caller, c); err != nil {
		return nil, err
	}
	if c != nil {
		c.Close(q.GetContextViewId())
	}
	return &corepb.CloseContextResponse{}, nil
}
