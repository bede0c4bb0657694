package troupe

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/closing"
)

// Callable is a step that was prepared once, to be run often: its feeds, fetches and targets are fixed, and
// tensors go in and come out by position. A callable of a server in this process holds its compiled plan, so a
// run looks nothing up. Its methods may be called concurrently.
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

// Prepare prepares a step over a graph that package graph/op built: it is fed the outputs of feeds, in order, and
// asked for what Eval could be asked for.
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

// PrepareStep prepares a step by names, with all that TensorFlow's message says, such as RunOptions. Servers
// refuse options that they do not support: Troupe's refuse the fields feed_devices, fetch_devices and
// tensor_connection. Mistakes in the names are errors of PrepareStep, not of the runs.
func (s *Session) PrepareStep(ctx context.Context, options *corepb.CallableOptions) (*Callable, error) {
	p, err := s.b.prepare(ctx, options)
	if err != nil {
		return nil, status.InContext(ctx, err)
	}
	return &Callable{p, len(options.GetFetch()), closing.New()}, nil
}

// Run runs the step with a tensor for each feed, which stay the caller's. It returns a tensor for each fetch,
// which are the caller's to release. INVALID_ARGUMENT if the number, types or shapes of the fed tensors are not
// those of the graph.
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

// RunInto is Run with a slice of the caller's: the fetched tensors are put into fetched, which has a place for
// each. After an error nothing in it is to be released.
func (c *Callable) RunInto(ctx context.Context, fetched, feeds []*tensor.Tensor) error {
	if err := c.p.run(ctx, feeds, fetched); err != nil {
		return status.InContext(ctx, err)
	}
	return nil
}

// Close lets the server forget the step; running it is INVALID_ARGUMENT afterwards. Further calls of Close
// return nil once one has succeeded.
func (c *Callable) Close(ctx context.Context) error { return c.closed.Do(ctx, c.p.release) }

// PartialRun is one step whose feeds come, and whose fetches go, over several calls: stateful operations run once.
// It ends after its last feed and fetch, with its first error, or with its session. Its methods may be called
// concurrently.
type PartialRun struct{ p partial }

// partial is a partial run in this process or on another server.
type partial interface {
	run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error)
}

// PartialRun begins a partial run of all that will be fed, fetched and run.
func (s *Session) PartialRun(ctx context.Context, feeds, fetches, targets []string) (*PartialRun, error) {
	p, err := s.b.setup(ctx, feeds, fetches, targets)
	if err != nil {
		return nil, status.InContext(ctx, err)
	}
	return &PartialRun{p}, nil
}

// Run feeds some of the step's feeds and waits for some of its fetches, each of which can be had once. A fetch
// that needs what has not been fed is INVALID_ARGUMENT. When ctx ends, so does the whole step.
func (p *PartialRun) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	fetched, err := p.p.run(ctx, feeds, fetches)
	return fetched, status.InContext(ctx, err)
}
