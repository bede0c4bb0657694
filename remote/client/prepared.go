package client

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/closing"
)

// Callable is a step that is prepared once and run often: its feeds, fetches and targets are fixed, and tensors are passed by position. Its
// methods are safe for concurrent use.
type Callable struct {
	session *Session
	handle  int64
	feeds   int
	fetches int
	closed  *closing.Once
}

// PrepareStep prepares a step. Servers reject options that they do not support: Troupe's reject the fields feed_devices, fetch_devices and
// tensor_connection.
func (s *Session) PrepareStep(ctx context.Context, options *corepb.CallableOptions) (*Callable, error) {
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	var a corepb.MakeCallableResponse
	err := s.client.master(ctx, "MakeCallable", &corepb.MakeCallableRequest{SessionHandle: s.handle, Options: options, RequestId: requestID()}, &a)
	if err != nil {
		return nil, err
	}
	return &Callable{s, a.Handle, len(options.GetFeed()), len(options.GetFetch()), closing.New()}, nil
}

// Run runs the step with a tensor for each feed; the caller keeps ownership of them. It returns a tensor for each fetch, which the caller
// must release. For the effect of ctx, see Session.RunStep; the server does not learn its deadline.
func (c *Callable) Run(ctx context.Context, feeds ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	if c.fetches == 0 {
		return nil, c.RunInto(ctx, nil, feeds)
	}
	fetched := make([]*tensor.Tensor, c.fetches)
	if err := c.RunInto(ctx, fetched, feeds); err != nil {
		return nil, err
	}
	return fetched, nil
}

// RunInto is Run with the caller's slice: it stores the fetched tensors in fetched, which has a place for each. After an error, nothing in
// it must be released.
func (c *Callable) RunInto(ctx context.Context, fetched, feeds []*tensor.Tensor) error {
	if len(feeds) != c.feeds {
		return status.InvalidArgumentf("Expected %d feed tensors, but got %d", c.feeds, len(feeds))
	}
	if len(fetched) != c.fetches {
		return status.InvalidArgumentf("There is room for %d fetched tensors, but the callable returns %d", len(fetched), c.fetches)
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
	err := c.session.client.invoke(ctx, service+"RunCallable", w.end(), a.readCallable, nil)
	if err != nil {
		a.release()
	}
	return err
}

// Close makes the server forget the step; running it afterwards is INVALID_ARGUMENT. Once Close has succeeded, further calls return nil.
func (c *Callable) Close(ctx context.Context) error {
	ctx, cancel := c.session.client.bounded(ctx)
	defer cancel()
	return c.closed.Do(ctx, func(ctx context.Context) error {
		return c.session.client.master(ctx, "ReleaseCallable",
			&corepb.ReleaseCallableRequest{SessionHandle: c.session.handle, Handle: c.handle}, &corepb.ReleaseCallableResponse{})
	})
}

// PartialRun is one step that is fed and fetched from in several calls: stateful operations run once. It ends after its last feed and
// fetch, with its first error, or with its session. Its methods are safe for concurrent use.
type PartialRun struct {
	session *Session
	handle  string
}

// PartialRun begins a partial run; the arguments list everything that will be fed, fetched and run.
func (s *Session) PartialRun(ctx context.Context, feeds, fetches, targets []string) (*PartialRun, error) {
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	var a corepb.PartialRunSetupResponse
	err := s.client.master(ctx, "PartialRunSetup",
		&corepb.PartialRunSetupRequest{SessionHandle: s.handle, Feed: feeds, Fetch: fetches, Target: targets, RequestId: requestID()}, &a)
	if err != nil {
		return nil, err
	}
	return &PartialRun{s, a.PartialRunHandle}, nil
}

// Run feeds some of the step's feeds and waits for some of its fetches, each of which can be fetched once. A fetch that depends on a feed
// that is still missing is INVALID_ARGUMENT. When ctx ends, so does the whole step.
func (p *PartialRun) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	a, err := p.session.run(ctx, Step{Feeds: feeds, Fetches: fetches}, p.handle)
	if err != nil {
		return nil, err
	}
	return a.fetched, nil
}
