package port

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// openTimeout bounds how long an early call waits for a server that is still starting.
const openTimeout = 10 * time.Second

// Services are the gRPC services of a port besides the actors' remoting. Services may be added
// at any time, but calls wait until Open. It implements grpc.ServiceRegistrar and what
// reflection needs.
type Services struct {
	log    *slog.Logger
	mu     sync.RWMutex
	byName map[string]service
	opened chan struct{} // closed by Open
	once   sync.Once

	handlers *gauge // every call and stream, the remoting's too
	unary    *gauge // the calls that a graceful stop waits for
}

type service struct {
	desc  *grpc.ServiceDesc
	impl  any
	early bool
}

func newServices(log *slog.Logger) *Services {
	return &Services{log: log, byName: map[string]service{}, opened: make(chan struct{}), handlers: newGauge(), unary: newGauge()}
}

// RegisterService adds a service; a second one of the same name replaces the first.
func (s *Services) RegisterService(desc *grpc.ServiceDesc, impl any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[desc.ServiceName] = service{desc: desc, impl: impl}
}

// Early registers services that answer before Open: those by which the starting server itself
// is found.
func (s *Services) Early() grpc.ServiceRegistrar { return early{s} }

type early struct{ *Services }

func (e early) RegisterService(desc *grpc.ServiceDesc, impl any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.byName[desc.ServiceName] = service{desc: desc, impl: impl, early: true}
}

// GetServiceInfo lists the services as reflection wants them.
func (s *Services) GetServiceInfo() map[string]grpc.ServiceInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	infos := map[string]grpc.ServiceInfo{}
	for name, svc := range s.byName {
		info := grpc.ServiceInfo{Metadata: svc.desc.Metadata}
		for _, m := range svc.desc.Methods {
			info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.MethodName})
		}
		for _, m := range svc.desc.Streams {
			info.Methods = append(info.Methods, grpc.MethodInfo{Name: m.StreamName, IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams})
		}
		infos[name] = info
	}
	return infos
}

// Open lets calls in: whatever they reach must be ready.
func (s *Services) Open() { s.once.Do(func() { close(s.opened) }) }

func (s *Services) find(name string) (service, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	svc, ok := s.byName[name]
	return svc, ok
}

// handle serves every call whose service the grpc.Server itself does not know.
func (s *Services) handle(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	name, method, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	svc, ok := s.find(name)
	select {
	case <-s.opened:
	default:
		if svc.early {
			break
		}
		wait := time.NewTimer(openTimeout)
		defer wait.Stop()
		select {
		case <-s.opened:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-wait.C:
			return status.Errorf(codes.Unavailable, "The server is still starting; %s was not served within %v.", full, openTimeout)
		}
	}
	if !ok {
		svc, ok = s.find(name)
	}
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown service %s", name)
	}
	for i := range svc.desc.Methods {
		if m := &svc.desc.Methods[i]; m.MethodName == method {
			if !s.unary.enter() {
				return errStopping
			}
			defer s.unary.leave()
			reply, err := m.Handler(svc.impl, stream.Context(), stream.RecvMsg, nil)
			if err != nil {
				return err
			}
			return stream.SendMsg(reply)
		}
	}
	for i := range svc.desc.Streams {
		if m := &svc.desc.Streams[i]; m.StreamName == method {
			return m.Handler(svc.impl, stream)
		}
	}
	return status.Errorf(codes.Unimplemented, "unknown method %s for service %s", method, name)
}

// guardStream counts a call and turns its panic into an INTERNAL error. The remoting's own
// handlers need that too: some of its methods do nothing but panic, and an actor message of
// an unknown type makes it panic.
func (s *Services) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	if !s.handlers.enter() {
		return errStopping
	}
	defer s.handlers.leave()
	defer s.recover(info.FullMethod, &err)
	return next(srv, stream)
}

func (s *Services) guardUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	if !s.handlers.enter() {
		return nil, errStopping
	}
	defer s.handlers.leave()
	defer s.recover(info.FullMethod, &err)
	return next(ctx, req)
}

func (s *Services) recover(method string, err *error) {
	if r := recover(); r != nil {
		s.log.Error("a remote call panicked", "method", method, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = status.Errorf(codes.Internal, "%s panicked: %v", method, r)
	}
}

var errStopping = status.Error(codes.Unavailable, "The server is stopping.")
