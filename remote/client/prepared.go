package client

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Callable is a prepared step: what is fed and fetched is named once, and then given by position. Its methods may
// be called concurrently.
type Callable struct {
	session *Session
	handle  int64
	feeds   int
	fetches int
}

// MakeCallable prepares a step.
func (s *Session) MakeCallable(ctx context.Context, options *corepb.CallableOptions) (*Callable, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var a corepb.MakeCallableResponse
	err := s.client.master(ctx, "MakeCallable", &corepb.MakeCallableRequest{SessionHandle: s.handle, Options: options, RequestId: requestID()}, &a)
	if err != nil {
		return nil, err
	}
	return &Callable{s, a.Handle, len(options.GetFeed()), len(options.GetFetch())}, nil
}

// Run runs the step. The fed tensors stay the caller's; the fetched ones, which are the caller's to release, are
// put into fetched, which has a place for each. Of ctx see Session.RunStep; its deadline is the call's alone.
func (c *Callable) Run(ctx context.Context, feeds, fetched []*tensor.Tensor) error {
	if len(feeds) != c.feeds {
		return status.InvalidArgumentf("Expected %d feed tensors, but got %d", c.feeds, len(feeds))
	}
	if len(fetched) != c.fetches {
		return status.InvalidArgumentf("There is room for %d fetched tensors, where the callable gives %d", len(fetched), c.fetches)
	}
	sum := 0
	for i, t := range feeds {
		if t == nil {
			return status.InvalidArgumentf("Nothing was fed at position %d", i)
		}
		sum += t.ByteSize()
	}
	if err := fits(sum, len(feeds)); err != nil {
		return err
	}
	w := writers.Get().(*writer)
	defer w.free()
	w.text(1, c.session.handle)
	w.number(2, c.handle)
	for _, t := range feeds {
		if err := w.tensor(3, t); err != nil {
			return err
		}
	}
	w.number(4, requestID())
	clear(fetched)
	a := answer{fetched: fetched}
	err := c.session.client.invoke(ctx, service+"RunCallable", w.end(), a.readCallable)
	if err != nil {
		a.release()
	}
	return err
}

// Release lets the server forget the step.
func (c *Callable) Release(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return c.session.client.master(ctx, "ReleaseCallable",
		&corepb.ReleaseCallableRequest{SessionHandle: c.session.handle, Handle: c.handle}, &corepb.ReleaseCallableResponse{})
}

// PartialRun is a step that is fed and fetched from in several calls. Its methods may be called concurrently.
type PartialRun struct {
	session *Session
	handle  string
}

// PartialRunSetup begins a step whose feeds come, and whose fetches go, over several calls.
func (s *Session) PartialRunSetup(ctx context.Context, feeds, fetches, targets []string) (*PartialRun, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var a corepb.PartialRunSetupResponse
	err := s.client.master(ctx, "PartialRunSetup",
		&corepb.PartialRunSetupRequest{SessionHandle: s.handle, Feed: feeds, Fetch: fetches, Target: targets, RequestId: requestID()}, &a)
	if err != nil {
		return nil, err
	}
	return &PartialRun{s, a.PartialRunHandle}, nil
}

// Run feeds some of the step's feeds and waits for some of its fetches, each of which can be had once.
func (p *PartialRun) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	a, err := p.session.run(ctx, Step{Feeds: feeds, Fetches: fetches}, p.handle)
	if err != nil {
		return nil, err
	}
	return a.fetched, nil
}
