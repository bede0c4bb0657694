package troupe

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Callable is a step that was prepared once, to be run often: its feeds, fetches and targets are fixed, and
// tensors go in and come out by position. A callable of a server of this process knows its compiled plan, so that a
// run looks nothing up. Its methods may be called concurrently.
type Callable struct {
	p       prepared
	fetches int
}

// prepared is a callable in this process or on another server.
type prepared interface {
	run(ctx context.Context, feeds, fetched []*tensor.Tensor) error
	release(ctx context.Context) error
}

// MakeCallable prepares a step that is fed the tensors of feeds, in order. Mistakes in the names are its
// errors, and not those of the runs.
func (s *Session) MakeCallable(ctx context.Context, feeds, fetches, targets []string) (*Callable, error) {
	return s.MakeCallableWith(ctx, &corepb.CallableOptions{Feed: feeds, Fetch: fetches, Target: targets})
}

// MakeCallableWith is MakeCallable with all that TensorFlow's message tells, such as RunOptions. Servers refuse
// what they do not support: Troupe's the fields feed_devices, fetch_devices and tensor_connection.
func (s *Session) MakeCallableWith(ctx context.Context, options *corepb.CallableOptions) (*Callable, error) {
	p, err := s.b.prepare(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Callable{p, len(options.GetFetch())}, nil
}

// Run runs the step with a tensor for each feed, and gives one for each fetch, which are the caller's to release.
// INVALID_ARGUMENT where number, types or shapes of the fed tensors are not the graph's.
func (c *Callable) Run(ctx context.Context, feeds ...*tensor.Tensor) ([]*tensor.Tensor, error) {
	if c.fetches == 0 {
		return nil, c.p.run(ctx, feeds, nil)
	}
	fetched := make([]*tensor.Tensor, c.fetches)
	if err := c.p.run(ctx, feeds, fetched); err != nil {
		return nil, err
	}
	return fetched, nil
}

// RunInto is Run with memory of the caller's: the fetched tensors are put into fetched, which has a place for each.
// On an error nothing in it is to be released.
func (c *Callable) RunInto(ctx context.Context, fetched, feeds []*tensor.Tensor) error {
	return c.p.run(ctx, feeds, fetched)
}

// Release lets the server forget the step: to run it is INVALID_ARGUMENT then.
func (c *Callable) Release(ctx context.Context) error { return c.p.release(ctx) }

// PartialRun is one step whose feeds come, and whose fetches go, over several calls: stateful ops run once. It ends
// after its last feed and fetch, with its first error, or with its session. Its methods may be called concurrently.
type PartialRun struct{ p partial }

// partial is a partial run in this process or on another server.
type partial interface {
	run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error)
}

// PartialRunSetup begins a partial run of all that will be fed, fetched and run.
func (s *Session) PartialRunSetup(ctx context.Context, feeds, fetches, targets []string) (*PartialRun, error) {
	p, err := s.b.setup(ctx, feeds, fetches, targets)
	if err != nil {
		return nil, err
	}
	return &PartialRun{p}, nil
}

// Run feeds some of the feeds and waits for some of the fetches, each of which goes once. INVALID_ARGUMENT where
// a fetch needs what has not been fed so far. When ctx ends, so does the whole step.
func (p *PartialRun) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	return p.p.run(ctx, feeds, fetches)
}
