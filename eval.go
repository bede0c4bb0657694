package troupe

import (
	"context"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Feeds are values for outputs of a graph that package graph/op built: each a *tensor.Tensor, which stays the
// caller's, or a Go value that tensor.From takes, such as [][]float32.
type Feeds map[op.Output]any

// Eval runs a step and gives the fetched tensors in order, which are the caller's to release. It is Run for a graph
// that package graph/op built.
func (s *Session) Eval(ctx context.Context, feeds Feeds, fetches ...op.Output) ([]*tensor.Tensor, error) {
	names, err := outputNames(fetches, "fetched")
	if err != nil {
		return nil, err
	}
	return s.eval(ctx, feeds, names, nil)
}

// Do runs operations for what they do.
func (s *Session) Do(ctx context.Context, feeds Feeds, targets ...*op.Operation) error {
	names, err := targetNames(targets)
	if err == nil {
		_, err = s.eval(ctx, feeds, nil, names)
	}
	return err
}

// Fetch runs a step and gives one fetched tensor as a Go value; see tensor.To.
func Fetch[V any](ctx context.Context, s *Session, feeds Feeds, fetch op.Output) (value V, err error) {
	fetched, err := s.Eval(ctx, feeds, fetch)
	if err != nil {
		return value, err
	}
	defer fetched[0].Release()
	return tensor.To[V](fetched[0])
}

// Prepare is MakeCallable for a graph that package graph/op built.
func (s *Session) Prepare(ctx context.Context, feeds, fetches []op.Output, targets ...*op.Operation) (*Callable, error) {
	fed, err := outputNames(feeds, "fed")
	if err != nil {
		return nil, err
	}
	fetched, err := outputNames(fetches, "fetched")
	if err != nil {
		return nil, err
	}
	run, err := targetNames(targets)
	if err != nil {
		return nil, err
	}
	return s.MakeCallable(ctx, fed, fetched, run)
}

func (s *Session) eval(ctx context.Context, feeds Feeds, fetches, targets []string) ([]*tensor.Tensor, error) {
	if len(feeds) == 0 {
		return s.Run(ctx, nil, fetches, targets)
	}
	tensors := make(map[string]*tensor.Tensor, len(feeds))
	for output, value := range feeds {
		if output.Op == nil {
			return nil, errNoOutput("fed")
		}
		t, ours := value.(*tensor.Tensor)
		if !ours {
			var err error
			if t, err = tensor.From(value); err != nil {
				return nil, status.InvalidArgumentf("The value fed for %s: %s", output.Name(), status.From(err).Message)
			}
			defer t.Release()
		}
		tensors[output.Name()] = t
	}
	return s.Run(ctx, tensors, fetches, targets)
}

func outputNames(outputs []op.Output, what string) ([]string, error) {
	names := make([]string, len(outputs))
	for i, o := range outputs {
		if o.Op == nil {
			return nil, errNoOutput(what)
		}
		names[i] = o.Name()
	}
	return names, nil
}

func errNoOutput(what string) error {
	return status.InvalidArgumentf("What is %s is an output of an operation that could not be added: its scope's Err says why", what)
}

func targetNames(targets []*op.Operation) ([]string, error) {
	names := make([]string, len(targets))
	for i, o := range targets {
		if o == nil {
			return nil, status.InvalidArgumentf("What is to run is an operation that could not be added: its scope's Err says why")
		}
		names[i] = o.Name()
	}
	return names, nil
}
