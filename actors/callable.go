package actors

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// callable is a prepared step: its signature is fixed and its feeds and results are positional.
type callable struct {
	sig     graph.Signature
	key     []byte
	options *corepb.RunOptions
}

// MakeCallable prepares a step and returns its handle.
func (s *Session) MakeCallable(ctx context.Context, o *corepb.CallableOptions) (int64, error) {
	if s.closed.Load() {
		return 0, errClosed()
	}
	s.touch()
	switch {
	case len(o.GetTensorConnection()) > 0:
		return 0, status.Unimplementedf("CallableOptions.tensor_connection is not supported")
	case len(o.GetFeedDevices()) > 0:
		return 0, status.Unimplementedf("CallableOptions.feed_devices is not supported: feeds come from the master's CPU:0")
	case len(o.GetFetchDevices()) > 0:
		return 0, status.Unimplementedf("CallableOptions.fetch_devices is not supported: fetches go to the master's CPU:0")
	}
	if err := checkOptions(o.GetRunOptions()); err != nil {
		return 0, err
	}
	c := &callable{sig: graph.Signature{Feeds: o.GetFeed(), Fetches: o.GetFetch(), Targets: o.GetTarget()}, options: o.GetRunOptions()}
	c.key = appendSignature(nil, c.sig)
	p, err := s.plan(ctx, c.sig)
	if err != nil {
		return 0, err
	}
	p.local.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counter++
	s.callables[s.counter] = c
	return s.counter, nil
}

// RunCallable runs a prepared step. The fed tensors stay the caller's. Of detach see StepRequest.
func (s *Session) RunCallable(ctx context.Context, handle int64, feeds []*tensor.Tensor, detach func(context.Context)) (*StepResult, error) {
	if s.closed.Load() {
		return nil, errClosed()
	}
	s.touch()
	s.mu.Lock()
	c := s.callables[handle]
	s.mu.Unlock()
	if c == nil {
		return nil, status.InvalidArgumentf("No such callable handle: %d", handle)
	}
	if len(feeds) != len(c.sig.Feeds) {
		return nil, status.InvalidArgumentf("Expected %d feed tensors, but got %d", len(c.sig.Feeds), len(feeds))
	}
	st := s.task.takeStep()
	st.feeds = append(st.feeds, feeds...)
	return s.run(st, s.callOf(ctx, detach, c.options), c.key, func() graph.Signature { return c.sig }, c.sig.Fetches, c.options)
}

// ReleaseCallable forgets a prepared step; an unknown handle is none.
func (s *Session) ReleaseCallable(handle int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.callables, handle)
}
