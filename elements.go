package troupe

import (
	"context"
	"iter"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Elements yields what a step gives again and again, until it says OUT_OF_RANGE: the elements of a dataset, where what
// is the outputs of op.IteratorGetNext, or the batches of a queue, until that is closed and empty. Each of an
// element's tensors is the value of an op.Output of what, in order; operations are run for each element. The tensors are
// released after the loop's iteration: Retain one that has to outlive it.
//
// The sequence ends after an error, which it yields without tensors. The end of ctx is one. It may be ranged over
// again: an iterator then goes on where it stands, also after OUT_OF_RANGE if it was initialized anew.
//
// An element is asked for when the loop wants it. A dataset that should work ahead has op.PrefetchDataset as its last
// stage.
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
			// What matters of the steps has been said; what the server cannot forget now ends with the session.
			_ = step.Close(closing)
		}()
		element := make([]*tensor.Tensor, step.fetches)
		for {
			if err := step.RunInto(ctx, element, nil); err != nil {
				if status.CodeOf(err) != status.OutOfRange || ctx.Err() != nil {
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

// forgetTime bounds how long a sequence that has ended asks its server to forget the step.
const forgetTime = 10 * time.Second

// deliver gives an element to the loop and releases it, also where the loop panics.
func deliver(element []*tensor.Tensor, yield func([]*tensor.Tensor, error) bool) bool {
	defer func() {
		for _, t := range element {
			t.Release()
		}
	}()
	return yield(element, nil)
}
