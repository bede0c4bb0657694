package eager

import (
	"context"
	"maps"
	"slices"
	"sync"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/gateway"
)

// running has the unary Enqueues that are being executed, by their context. Its methods may be called concurrently.
type running struct {
	mu sync.Mutex
	of map[uint64]map[chan struct{}]struct{} // the channels are closed at the end of the calls
}

// enter counts a call until leave is called.
func (r *running) enter(id uint64) (leave func()) {
	done := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[id] == nil {
		r.of[id] = map[chan struct{}]struct{}{}
	}
	r.of[id][done] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		close(done)
		if delete(r.of[id], done); len(r.of[id]) == 0 {
			delete(r.of, id)
		}
	}
}

// wait waits for the calls that are being executed now.
func (r *running) wait(ctx context.Context, id uint64) error {
	r.mu.Lock()
	calls := slices.Collect(maps.Keys(r.of[id]))
	r.mu.Unlock()
	for _, done := range calls {
		select {
		case <-done:
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
	return nil
}

// waitQueueDone waits for the unary Enqueues of a context that came before. The ops of streams are not among them, as in TensorFlow.
func (s *service) waitQueueDone(ctx context.Context, caller *gateway.Caller, q *corepb.WaitQueueDoneRequest) (*corepb.WaitQueueDoneResponse, error) {
	c, err := s.context(ctx, caller, q.GetContextId())
	if err != nil {
		return nil, err
	}
	if len(q.GetOpId()) > 0 {
		return nil, status.Errorf(status.Unimplemented, "EagerServiceImpl::WaitQueueDone is not implemented for particular op IDs.")
	}
	return &corepb.WaitQueueDoneResponse{}, s.running.wait(ctx, c.ID())
}
