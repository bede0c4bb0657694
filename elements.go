package troupe

import (
	"context"
	"iter"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Elements runs a step again and again and yields its results, until the step returns OUT_OF_RANGE: the elements of a
// dataset, if what is the outputs of op.IteratorGetNext, or the batches of a queue, until that is closed and empty. The
// tensors of an element are the values of the op.Outputs in what, in order; operations run for each element. The
// tensors are released after the loop's iteration: Retain one that must outlive it.
//
// The sequence ends after an error, which it yields without tensors. The end of ctx is such an error. The sequence may
// be ranged over again: an iterator then continues where it was, even after OUT_OF_RANGE if it has been initialized
// again.
//
// An element is requested when the loop needs it. For a dataset that works ahead of the loop, make op.PrefetchDataset
// its last stage.
func (s *Session) Elements(ctx context.Context, what ...op.Runnable) iter.Seq2[[]*tensor.Tensor, error] {
	return func(yield func([]*tensor.Tensor, error) bool) {
		step, err := s.Prepare(ctx, nil, what...)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTime)
			defer cancel()
			// The loop has already seen the step's errors, and a step that is not released now is released with the
			// session.
			_ = step.Close(closing)
		}()
		element := make([]*tensor.Tensor, step.fetches)
		for begun := false; ; begun = true {
			if err := step.RunInto(ctx, element, nil); err != nil {
				if status.CodeOf(err) != status.OutOfRange || ctx.Err() != nil || !begun && status.From(err).AfterEnd() {
					yield(nil, err)
				}
				return
			}
			if !deliver(element, yield) {
				return
			}
		}
	}
}

// forgetTime bounds how long a sequence that has ended waits for its server to release the step.
const forgetTime = 10 * time.Second

// deliver yields an element to the loop and releases it, even if the loop panics.
func deliver(element []*tensor.Tensor, yield func([]*tensor.Tensor, error) bool) bool {
	defer func() {
		for _, t := range element {
			t.Release()
		}
	}()
	return yield(element, nil)
}
