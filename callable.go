package troupe

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/closing"
)

// Callable is a step that was prepared once, to be run often: its feeds, fetches and targets are fixed, and tensors go
// in and come out by position. A callable of a server in this process holds its compiled plan, so a run needs no
// lookup. Its methods may be called concurrently.
type Callable struct {
	p       prepared
	fetches int
	closed  *closing.Once
}

// prepared is a callable in this process or on another server.
type prepared interface {
	run(ctx context.Context, feeds, fetched []*tensor.Tensor) error
	release(ctx context.Context) error
}

// Prepare prepares a step over a graph that package graph/op built. The step is fed the outputs in feeds, in order;
// what is as for Eval.
func (s *Session) Prepare(ctx context.Context, feeds []op.Output, what ...op.Runnable) (*Callable, error) {
	fed, err := outputNames(feeds)
	if err != nil {
		return nil, err
	}
	fetches, targets, err := names(what)
	if err != nil {
		return nil, err
	}
	return s.PrepareStep(ctx, &corepb.CallableOptions{Feed: fed, Fetch: fetches, Target: targets})
}

// PrepareStep prepares a step by names, with everything that TensorFlow's message can have, such as RunOptions. Servers
// reject options that they do not support: Troupe's reject the fields feed_devices, fetch_devices and
// tensor_connection. Invalid names are errors of PrepareStep, not of the runs.
func (s *Session) PrepareStep(ctx context.Context, options *corepb.CallableOptions) (*Callable, error) {
	p, err := s.b.prepare(ctx, options)
	if err != nil {
		return nil, status.InContext(ctx, err)
	}
	return &Callable{p, len(options.GetFetch()), closing.New()}, nil
}

// Run runs the step with a tensor for each feed, which the caller keeps. It returns a tensor for each fetch, which the
// caller must release. It returns INVALID_ARGUMENT if the number, types or shapes of the fed tensors do not match the
// graph.
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

// RunInto is Run with a slice that the caller provides: it stores the fetched tensors in fetched, which has an element
// for each. After an error the caller must not release anything in it.
func (c *Callable) RunInto(ctx context.Context, fetched, feeds []*tensor.Tensor) error {
	if err := c.p.run(ctx, feeds, fetched); err != nil {
		return status.InContext(ctx, err)
	}
	return nil
}

// Close releases the step on the server. Running it afterwards is INVALID_ARGUMENT. Further calls of Close return nil
// once one has succeeded.
func (c *Callable) Close(ctx context.Context) error { return c.closed.Do(ctx, c.p.release) }

// PartialRun is a single step that is fed and fetched from in several calls. Its stateful operations run once. It ends
// after its last feed and fetch, with its first error, or with its session. Its methods may be called concurrently.
type PartialRun struct{ p partial }

// partial is a partial run in this process or on another server.
type partial interface {
	run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error)
}

// PartialRun begins a partial run. The arguments are everything that will be fed, fetched and run.
func (s *Session) PartialRun(ctx context.Context, feeds, fetches, targets []string) (*PartialRun, error) {
	p, err := s.b.setup(ctx, feeds, fetches, targets)
	if err != nil {
		return nil, status.InContext(ctx, err)
	}
	return &PartialRun{p}, nil
}

// Run feeds some of the step's feeds and waits for some of its fetches, each of which can be fetched once. A fetch that
// needs a feed that has not been fed is INVALID_ARGUMENT. When ctx ends, so does the whole step.
func (p *PartialRun) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	fetched, err := p.p.run(ctx, feeds, fetches)
	return fetched, status.InContext(ctx, err)
}
