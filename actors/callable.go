package actors

import (
	"context"
	"errors"
	"sync/atomic"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// Callable is a prepared step: its signature is fixed, its feeds and results are positional, and it
// knows its plan. Its methods may be called concurrently.
type Callable struct {
	session *Session
	sig     graph.Signature
	key     []byte
	options *corepb.RunOptions
	plan    atomic.Pointer[plan] // may have been dropped by the session since
	order   *order               // of the signature's names
	over    atomic.Bool
	held    int64 // what a client's callable counts as memory of the session
}

// Prepare returns a callable for a step. A callable that is no longer referenced costs nothing, released or not.
func (s *Session) Prepare(ctx context.Context, o *corepb.CallableOptions) (*Callable, error) {
	if s.closed.Load() {
		return nil, errClosed()
	}
	s.touch()
	switch {
	case len(o.GetTensorConnection()) > 0:
		return nil, status.Unimplementedf("CallableOptions.tensor_connection is not supported")
	case len(o.GetFeedDevices()) > 0:
		return nil, status.Unimplementedf("CallableOptions.feed_devices is not supported: feeds come from the master's CPU:0")
	case len(o.GetFetchDevices()) > 0:
		return nil, status.Unimplementedf("CallableOptions.fetch_devices is not supported: fetches go to the master's CPU:0")
	}
	if err := checkOptions(o.GetRunOptions()); err != nil {
		return nil, err
	}
	c := &Callable{session: s, sig: graph.Signature{Feeds: o.GetFeed(), Fetches: o.GetFetch(), Targets: o.GetTarget()}, options: o.GetRunOptions()}
	c.key = signatureKey(c.sig)
	call := s.callOf(ctx, nil, nil)
	ctx, cancel := call.bound(func() {})
	defer cancel()
	p, order, err := s.latestPlan(ctx, nil, c.sig, nil)
	if err != nil {
		return nil, tooLate(ctx, err, call.limit)
	}
	c.order = order
	c.plan.Store(p)
	p.local.release()
	return c, nil
}

// Run runs the step with the given feeds and stores the fetched tensors in fetched, both in the order of the signature. The caller keeps
// its feeds and must release the fetched tensors. For detach, see StepRequest.
func (c *Callable) Run(ctx context.Context, feeds, fetched []*tensor.Tensor, detach Detach) (md *corepb.RunMetadata, err error) {
	s := c.session
	if s.closed.Load() {
		return nil, errClosed()
	}
	s.touch()
	if c.over.Load() {
		return nil, status.InvalidArgumentf("The callable was released")
	}
	if len(feeds) != len(c.sig.Feeds) {
		return nil, status.InvalidArgumentf("Expected %d feed tensors, but got %d", len(c.sig.Feeds), len(feeds))
	}
	if len(fetched) != len(c.sig.Fetches) {
		return nil, status.InvalidArgumentf("There is room for %d fetched tensors, but the callable returns %d", len(fetched), len(c.sig.Fetches))
	}
	call := s.callOf(ctx, detach, c.options)
	if call.span = s.beginRun(ctx); call.span != nil {
		defer func() { call.span.End(err) }()
	}
	for {
		p := c.plan.Load()
		if !s.upToDate() || !s.claim(p) {
			if p, _, err = s.planOf(&call, c.key, func() graph.Signature { return c.sig }, nil); err != nil {
				return nil, err
			}
			c.plan.Store(p)
		}
		st := s.task.takeStep()
		for i := range feeds {
			st.feeds = append(st.feeds, feeds[c.order.feed(i)])
		}
		if md, err = s.run(st, call, p, p.pruned.Signature.Fetches, c.order, fetched, c.options); !errors.Is(err, errMoved) {
			return md, err
		}
	}
}

// Release releases the callable. Runs in progress continue.
func (c *Callable) Release() {
	c.over.Store(true)
	c.plan.Store(nil)
}

// MakeCallable prepares a step and returns its handle. It counts as memory of the session until it is released.
func (s *Session) MakeCallable(ctx context.Context, o *corepb.CallableOptions) (handle int64, err error) {
	sig := graph.Signature{Feeds: o.GetFeed(), Fetches: o.GetFetch(), Targets: o.GetTarget()}
	bytes := signatureBytes(sig) + int64(proto.Size(o))
	if err := s.worker.hold(bytes); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			s.worker.drop(bytes)
		}
	}()
	c, err := s.Prepare(ctx, o)
	if err != nil {
		return 0, err
	}
	c.held = bytes
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.callables) >= maxCallables {
		return 0, tooMany("callables", "Session "+s.handle, maxCallables, "release those that are not used any more")
	}
	s.counter++
	s.callables[s.counter] = c
	return s.counter, nil
}

// RunCallable runs a prepared step. The caller keeps the fed tensors. For detach, see StepRequest.
func (s *Session) RunCallable(ctx context.Context, handle int64, feeds []*tensor.Tensor, detach Detach) (*StepResult, error) {
	if s.closed.Load() {
		return nil, errClosed()
	}
	s.mu.Lock()
	c := s.callables[handle]
	s.mu.Unlock()
	if c == nil {
		return nil, status.InvalidArgumentf("No such callable handle: %d", handle)
	}
	r := newResult(len(c.sig.Fetches))
	var err error
	if r.Metadata, err = c.Run(ctx, feeds, r.Tensors, detach); err != nil {
		return nil, err
	}
	return r, nil
}

// ReleaseCallable releases a prepared step. Unknown handles are ignored.
func (s *Session) ReleaseCallable(handle int64) {
	s.mu.Lock()
	c := s.callables[handle]
	delete(s.callables, handle)
	s.mu.Unlock()
	if c != nil {
		s.worker.drop(c.held)
	}
}

// signatureBytes is about what a prepared step or a partial run takes: itself, its names in two forms, and their order.
func signatureBytes(sig graph.Signature) int64 {
	bytes := int64(1 << 10)
	for _, names := range [][]string{sig.Feeds, sig.Fetches, sig.Targets} {
		for _, name := range names {
			bytes += int64(len(name)) + 40
		}
	}
	return bytes
}
