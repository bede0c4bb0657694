package port

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/remote/internal/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The methods of grpc.health.v1.
const (
	healthCheck = "/grpc.health.v1.Health/Check"
	healthList  = "/grpc.health.v1.Health/List"
	healthWatch = "/grpc.health.v1.Health/Watch"
)

// maxWatchers bounds the concurrent calls of Watch of a port: each takes a goroutine.
const maxWatchers = 1 << 10

// healthService implements grpc.health.v1, by which probes and load balancers learn whether the server accepts work. All services of a
// port have the same health, and so does the server itself, whose name is empty.
type healthService struct {
	services *Services

	mu       sync.Mutex
	serving  bool
	stopped  bool
	watchers int
	changed  chan struct{} // closed when serving or stopped changes
}

func newHealth(s *Services) *healthService {
	h := &healthService{services: s, changed: make(chan struct{})}
	s.addMethod(healthCheck, h.unary(healthCheck, func(q *healthRequest) (any, error) {
		st, _, _ := h.look(q.service)
		if st == healthUnknownService {
			return nil, status.Errorf(codes.NotFound, "unknown service %.200s", q.service)
		}
		return healthResponse(st), nil
	}))
	s.addMethod(healthList, h.unary(healthList, func(*healthRequest) (any, error) { return h.list(), nil }))
	s.addMethod(healthWatch, &http2.Method{ServerStream: func(ctx context.Context, read func(any) error, send func(any) error) (err error) {
		defer s.recover(healthWatch, &err)
		return h.watch(ctx, read, send)
	}})
	return h
}

// unary returns a method that answers at once. The request of List, which has no fields, decodes as one of Check without a name.
func (h *healthService) unary(path string, answer func(*healthRequest) (any, error)) *http2.Method {
	return &http2.Method{Inline: true, Unary: func(_ context.Context, read func(any) error) (_ any, err error) {
		defer h.services.recover(path, &err)
		q := &healthRequest{}
		if err := read(q); err != nil {
			return nil, err
		}
		return answer(q)
	}}
}

// look returns a service's status, a channel that is closed when that may have changed, and whether the port is being stopped.
func (h *healthService) look(service string) (healthStatus, <-chan struct{}, bool) {
	known := service == "" || slices.Contains(h.services.names(), service)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !known:
		return healthUnknownService, h.changed, h.stopped
	case h.serving:
		return healthServing, h.changed, h.stopped
	}
	return healthNotServing, h.changed, h.stopped
}

func (h *healthService) list() healthListResponse {
	st, _, _ := h.look("")
	return healthListResponse{append([]string{""}, h.services.names()...), st}
}

// watch sends a service's status whenever it changes, until the client cancels the call or the port is stopped.
func (h *healthService) watch(ctx context.Context, read func(any) error, send func(any) error) error {
	q := &healthRequest{}
	if err := read(q); err != nil {
		return err
	}
	if !h.enter() {
		return status.Errorf(codes.ResourceExhausted, "%d calls watch the health of this server already", maxWatchers)
	}
	defer h.leave()
	told := healthUnknown // no service has it, so the first status is sent
	for {
		st, changed, stopped := h.look(q.service)
		if st != told {
			if err := send(healthResponse(st)); err != nil {
				return err
			}
			told = st
		}
		if stopped {
			return status.Error(codes.Unavailable, "The server is stopping.")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func (h *healthService) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == maxWatchers {
		return false
	}
	h.watchers++
	return true
}

func (h *healthService) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers--
}

// set sets whether the server accepts work and whether the port is being stopped, and notifies the watchers.
func (h *healthService) set(serving, stopped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serving, h.stopped = serving && !h.stopped, h.stopped || stopped
	close(h.changed)
	h.changed = make(chan struct{})
}

// names returns the names of the port's services, sorted.
func (s *Services) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := map[string]struct{}{}
	for path := range s.methods {
		name, _, _ := strings.Cut(path[1:], "/")
		found[name] = struct{}{}
	}
	return slices.Sorted(maps.Keys(found))
}

// Serving sets the answer of grpc.health.v1, which is NOT_SERVING until the server accepts work, and while it drains.
func (s *Services) Serving(yes bool) { s.health.set(yes, false) }
