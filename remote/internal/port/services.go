package port

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// openTimeout bounds how long an early call waits for a server that is still starting.
const openTimeout = 10 * time.Second

// Services are the gRPC services of a port. Services may be added
// at any time, but calls wait until Open. grpc.health.v1 answers from the start.
type Services struct {
	log     *slog.Logger
	mu      sync.RWMutex
	methods map[string]*http2.Method // by path
	opened  chan struct{}            // closed by Open
	once    sync.Once
	admit   func(ctx context.Context, method string) error // nil admits all
	explain func(path string) error                        // see Explain; nil explains nothing

	health *healthService
}

func newServices(log *slog.Logger, expected map[string]Shape) *Services {
	s := &Services{log: log, methods: map[string]*http2.Method{}, opened: make(chan struct{})}
	for path, shape := range expected {
		s.methods[path] = s.expect(path, shape)
	}
	s.health = newHealth(s)
	return s
}

// Shape is how many messages the calls of a method have.
type Shape int

// The shapes of methods other than unary ones.
const (
	Stream Shape = iota + 1
	ServerStream
	Bidi
)

// shapeOf returns the shape of a method; 0 for a unary one.
func shapeOf(m *http2.Method) Shape {
	switch {
	case m.Stream != nil:
		return Stream
	case m.ServerStream != nil:
		return ServerStream
	case m.Bidi != nil:
		return Bidi
	}
	return 0
}

// expect returns a method that stands for one that is added before Open: its calls wait for that.
func (s *Services) expect(path string, shape Shape) *http2.Method {
	var expected *http2.Method
	resolve := func(ctx context.Context) (*http2.Method, error) {
		if err := s.await(ctx, path); err != nil {
			return nil, err
		}
		if m := s.find(path); m != expected {
			return m, nil
		}
		return nil, status.Errorf(codes.Unimplemented, "unknown method %s", path)
	}
	switch shape {
	case Stream:
		expected = &http2.Method{Stream: func(ctx context.Context, stream *http2.Stream) error {
			m, err := resolve(ctx)
			if err != nil {
				return err
			}
			return m.Stream(ctx, stream)
		}}
	case ServerStream:
		expected = &http2.Method{ServerStream: func(ctx context.Context, read, send func(any) error) error {
			m, err := resolve(ctx)
			if err != nil {
				return err
			}
			return m.ServerStream(ctx, read, send)
		}}
	case Bidi:
		expected = &http2.Method{Bidi: func(ctx context.Context, recv, send func(any) error) error {
			m, err := resolve(ctx)
			if err != nil {
				return err
			}
			return m.Bidi(ctx, recv, send)
		}}
	default:
		panic("port: a unary method needs not be expected")
	}
	return expected
}

// Shapes returns the methods that are not unary, by path.
func (s *Services) Shapes() map[string]Shape {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := map[string]Shape{}
	for path, m := range s.methods {
		if shape := shapeOf(m); shape != 0 {
			all[path] = shape
		}
	}
	return all
}

var _ http2.Registrar = (*Services)(nil)

// Register adds a service's unary methods; a second service of the same name replaces the
// first. Streams are served with HandleStream, HandleServerStream and HandleBidi.
func (s *Services) Register(service http2.Service) { s.register(service, false) }

// Early returns a registrar for services that answer before Open, such as those by which other processes
// find the starting server.
func (s *Services) Early() http2.Registrar { return early{s} }

type early struct{ *Services }

func (e early) Register(service http2.Service) { e.register(service, true) }

// Admit has each call judged before its request is decoded, other than those of early services and HandleStream. It must be called before Open.
func (s *Services) Admit(admit func(ctx context.Context, method string) error) { s.admit = admit }

// Explain has calls of unknown methods answered with the error that explain returns for a path, unless that is nil. It must be called before Open.
func (s *Services) Explain(explain func(path string) error) { s.explain = explain }

// unknown returns what answers calls of a method that there is not; nil if nothing explains why.
func (s *Services) unknown(path string) *http2.Method {
	if s.explain == nil {
		return nil
	}
	err := s.explain(path)
	if err == nil {
		return nil
	}
	return &http2.Method{Unary: func(context.Context, func(any) error) (any, error) { return nil, err }}
}

// admitted waits until the services are open, and judges a call.
func (s *Services) admitted(ctx context.Context, method string) error {
	err := s.await(ctx, method)
	if err == nil && s.admit != nil {
		err = s.admit(ctx, method)
	}
	return err
}

// Open admits calls. Everything that they use must be ready.
func (s *Services) Open() { s.once.Do(func() { close(s.opened) }) }

// lookup returns the method of a path. Before Open, the method may not have been added yet; the call then
// waits.
func (s *Services) lookup(path string) *http2.Method {
	m := s.find(path)
	if m != nil {
		return m
	}
	select {
	case <-s.opened:
		return s.unknown(path)
	default:
	}
	return &http2.Method{Unary: func(ctx context.Context, read func(any) error) (any, error) {
		if err := s.await(ctx, path); err != nil {
			return nil, err
		}
		m := s.find(path)
		if m == nil {
			return nil, status.Errorf(codes.Unimplemented, "unknown method %s", path)
		}
		if m.Unary == nil {
			return nil, status.Errorf(codes.Unavailable, "the server has just started, and serves %s from now on", path)
		}
		return m.Unary(ctx, read)
	}}
}

func (s *Services) find(path string) *http2.Method {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.methods[path]
}

// Methods returns the paths of all methods, sorted, such as /tensorflow.MasterService/RunStep.
func (s *Services) Methods() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.methods))
}

// addMethod adds a method, or replaces the one with the same path.
func (s *Services) addMethod(path string, m *http2.Method) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.methods[path] = m
}

// Inline makes calls of methods, such as /tensorflow.MasterService/RunStep, run on the goroutine that
// reads their client's connection. They must call Detach before they block or compute for long.
func (s *Services) Inline(paths ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range paths {
		inline := *s.methods[path]
		inline.Inline = true
		s.methods[path] = &inline
	}
}

func (s *Services) register(service http2.Service, early bool) {
	for name, answer := range service.Methods {
		path := "/" + service.Name + "/" + name
		s.addMethod(path, &http2.Method{Unary: func(ctx context.Context, read func(any) error) (reply any, err error) {
			defer s.recover(path, &err)
			if !early {
				if err := s.admitted(ctx, path); err != nil {
					return nil, err
				}
			}
			return answer(ctx, read)
		}})
	}
}

// await waits until the services are open, for openTimeout at most.
func (s *Services) await(ctx context.Context, method string) error {
	select {
	case <-s.opened:
		return nil
	default:
	}
	Detach(ctx)
	wait := time.NewTimer(openTimeout)
	defer wait.Stop()
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-wait.C:
		return status.Errorf(codes.Unavailable, "The server is still starting; %s was not served within %v.", method, openTimeout)
	}
}

// recover turns a call's panic into an INTERNAL error.
func (s *Services) recover(method string, err *error) {
	if r := recover(); r != nil {
		*err = status.Error(codes.Internal, contain.Error(s.log, method, r).Error())
	}
}
