package troupe

import (
	"context"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Feeds are values for outputs of a graph that package graph/op built: each is a *tensor.Tensor, which the caller
// keeps, or a Go value that tensor.From takes, such as [][]float32.
type Feeds map[op.Output]any

// Eval runs a step over a graph that package graph/op built. It returns the value of each op.Output, in order, which
// the caller must release. It also runs each *op.Operation, for which it returns nothing:
//
//	_, err := session.Eval(ctx, nil, initialize)
//	out, err := session.Eval(ctx, troupe.Feeds{x: batch}, loss, train) // out[0] is the loss
func (s *Session) Eval(ctx context.Context, feeds Feeds, what ...op.Runnable) ([]*tensor.Tensor, error) {
	fetches, targets, err := names(what)
	if err != nil {
		return nil, err
	}
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
				return nil, status.InvalidArgumentf("The value fed for %s: %w", output.Name(), err)
			}
			defer t.Release()
		}
		tensors[output.Name()] = t
	}
	return s.Run(ctx, tensors, fetches, targets)
}

// Fetch is Eval for one output, whose value it returns as a Go value; see tensor.To.
func Fetch[V any](ctx context.Context, s *Session, feeds Feeds, fetch op.Output) (value V, err error) {
	fetched, err := s.Eval(ctx, feeds, fetch)
	if err != nil {
		return value, err
	}
	defer fetched[0].Release()
	return tensor.To[V](fetched[0])
}

// names returns the names of the outputs, which are fetched, and of the operations, which are targets.
func names(what []op.Runnable) (fetches, targets []string, err error) {
	for _, w := range what {
		switch w := w.(type) {
		case op.Output:
			if w.Op == nil {
				return nil, nil, errNoOutput("fetched")
			}
			fetches = append(fetches, w.Name())
		case *op.Operation:
			if w == nil {
				return nil, nil, status.InvalidArgumentf("The operation to run could not be added: its scope's Err says why")
			}
			targets = append(targets, w.Name())
		default:
			return nil, nil, status.InvalidArgumentf("The operation to run is nil")
		}
	}
	return fetches, targets, nil
}

func outputNames(outputs []op.Output) ([]string, error) {
	names := make([]string, len(outputs))
	for i, o := range outputs {
		if o.Op == nil {
			return nil, errNoOutput("fed")
		}
		names[i] = o.Name()
	}
	return names, nil
}

func errNoOutput(what string) error {
	return status.InvalidArgumentf("The %s tensor is an output of an operation that could not be added: its scope's Err says why", what)
}
