package batch

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// maxGradients is the maximum number of gradients waiting for their batch, which arrives in another step, or never if that step fails.
const maxGradients = 1 << 16

// unbatchGrads joins the gradients of a batch's steps in the step that had the batch, like TensorFlow's UnbatchGradResource.
type unbatchGrads struct {
	mu      sync.Mutex
	grads   map[int64]*tensor.Tensor // by step, until their batch takes them
	wanted  map[int64]*gradBatch     // by the missing step
	batches map[int64]*gradBatch     // by the step that has the batch
	deleted bool
}

// gradBatch is a batch that waits for gradients.
type gradBatch struct {
	ctx     *kernels.Context
	end     func(error)
	id      int64
	ids     []int64 // in the batch's order
	missing map[int64]bool
}

func newUnbatchGrad(c *kernels.Construction) (any, error) {
	where, err := newMeeting(c, kindUnbatchGrad, func() (*unbatchGrads, error) {
		return &unbatchGrads{grads: map[int64]*tensor.Tensor{}, wanted: map[int64]*gradBatch{}, batches: map[int64]*gradBatch{}}, nil
	})
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		u, err := where.get()
		if err != nil {
			done(err)
			return
		}
		id := ctx.Input(3)
		if id.Rank() != 0 {
			done(status.InvalidArgumentf("Expected `id` to be scalar. Received a tensor of shape %v", id.Shape()))
			return
		}
		kernels.Wait(ctx, kernels.Awaited{Text: "the gradients of the other steps of its batch"}, done, func(end func(error)) func(error) {
			b := &gradBatch{ctx: ctx, end: end, id: tensor.Of[int64](id)[0]}
			u.enter(b)
			return func(cause error) { u.leave(b, kernels.Cancelled(cause)) }
		})
	}), nil
}

// joinedGrads is a batch that is complete or has failed.
type joinedGrads struct {
	*gradBatch
	parts []*tensor.Tensor
	err   error
}

// finish ends the batch; the result is allocated in its step's memory.
func (e joinedGrads) finish() {
	err := e.err
	if err == nil && len(e.parts) > 0 {
		var joined *tensor.Tensor
		if joined, err = concatRows(e.ctx, e.parts, 0); err == nil {
			e.ctx.SetOutput(0, joined)
		}
	}
	kernels.ReleaseTensors(e.parts)
	e.end(err)
}

// enter adds a step's gradient, and its batch if it has one.
func (u *unbatchGrads) enter(b *gradBatch) {
	u.mu.Lock()
	var tell []joinedGrads
	if other := u.wanted[b.id]; other != nil {
		// A batch whose step has ended must not get the gradient, even if its cancellation has not arrived yet.
		if ended := other.ctx.Ended(); ended != nil {
			u.drop(other)
			tell = append(tell, joinedGrads{other, nil, kernels.Cancelled(ended)})
		}
	}
	waits, err := u.record(b)
	switch {
	case err != nil:
		tell = append(tell, joinedGrads{b, nil, err})
	case !waits:
		tell = append(tell, joinedGrads{b, nil, b.noGradient()})
	}
	if err == nil {
		if waits && len(b.missing) == 0 {
			tell = append(tell, u.complete(b))
		}
		if other := u.wanted[b.id]; other != nil {
			delete(u.wanted, b.id)
			delete(other.missing, b.id)
			if len(other.missing) == 0 {
				tell = append(tell, u.complete(other))
			}
		}
	}
	u.mu.Unlock()
	for _, e := range tell {
		e.finish()
	}
}

// record records what a step contributes, and reports whether the step must wait for its own batch.
func (u *unbatchGrads) record(b *gradBatch) (waits bool, err error) {
	data, index, grad := b.ctx.Input(0), b.ctx.Input(1), b.ctx.Input(2)
	switch {
	case u.deleted:
		return false, status.Errorf(status.Aborted, "The resource of the gradients was deleted.")
	case b.ctx.Ended() != nil:
		return false, kernels.Cancelled(b.ctx.Ended())
	case u.grads[b.id] != nil:
		return false, status.InvalidArgumentf("Two runs with the same batch key.")
	case len(u.grads) >= maxGradients:
		return false, status.Errorf(status.ResourceExhausted, "%d gradients are waiting for batches that have not arrived", len(u.grads))
	case data.Len() == 0:
		u.grads[b.id] = grad.Retain()
		return false, nil
	case index.Len() == 0:
		return false, status.InvalidArgumentf("batch_index is empty while the tensor isn't.")
	case index.Rank() == 0:
		return false, status.InvalidArgumentf("batch_index must have at least one dimension, but it is a scalar")
	case index.Len() != index.Dim(0)*3:
		return false, status.InvalidArgumentf("batch_index should contain %d elements. Received %d", index.Dim(0)*3, index.Len())
	case u.batches[b.id] != nil:
		return false, status.InvalidArgumentf("Batch key with valid batch used twice.")
	}
	b.missing = map[int64]bool{}
	seen := map[int64]bool{}
	values := tensor.Of[int64](index)
	for i := 0; i < len(values); i += 3 {
		key := values[i]
		if seen[key] {
			return false, status.Internalf("bad bookkeeping of available tensors.")
		}
		seen[key] = true
		b.ids = append(b.ids, key)
		if key != b.id && u.grads[key] == nil {
			if u.wanted[key] != nil {
				return false, status.InvalidArgumentf("Missing tensor wanted by more than one batch.")
			}
			b.missing[key] = true
		}
	}
	u.grads[b.id] = grad.Retain()
	u.batches[b.id] = b
	for key := range b.missing {
		u.wanted[key] = b
	}
	return true, nil
}

// noGradient sets the output of a step that had no batch.
func (b *gradBatch) noGradient() error {
	grad := b.ctx.Input(2)
	if grad.Rank() == 0 {
		return status.InvalidArgumentf("The gradient must have at least one dimension, but it is a scalar")
	}
	_, err := b.ctx.Allocate(0, grad.DType(), shapes.Replaced(grad.Shape(), 0, 1, 0))
	return err
}

// complete removes a batch that misses nothing. The caller holds u.mu.
func (u *unbatchGrads) complete(b *gradBatch) joinedGrads {
	delete(u.batches, b.id)
	e := joinedGrads{gradBatch: b}
	for _, id := range b.ids {
		grad := u.grads[id]
		if grad == nil {
			e.err = status.Internalf("bad bookkeeping of available tensors.")
			continue
		}
		e.parts = append(e.parts, grad)
		delete(u.grads, id)
	}
	return e
}

// leave ends a waiting batch and drops the gradients received for it.
func (u *unbatchGrads) leave(b *gradBatch, err error) {
	u.mu.Lock()
	waits := u.batches[b.id] == b
	if waits {
		u.drop(b)
	}
	u.mu.Unlock()
	if waits {
		b.end(err)
	}
}

func (u *unbatchGrads) drop(b *gradBatch) {
	delete(u.batches, b.id)
	for key := range b.missing {
		delete(u.wanted, key)
	}
	for _, id := range append(b.ids, b.id) {
		if grad := u.grads[id]; grad != nil {
			delete(u.grads, id)
			grad.Release()
		}
	}
}

// Describe describes the resource for listings.
func (u *unbatchGrads) Describe() string { return "UnbatchGradResource" }

// Deleted reports whether Close was called.
func (u *unbatchGrads) Deleted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.deleted
}

// Close ends the waiting batches and drops the gradients.
func (u *unbatchGrads) Close() {
	u.mu.Lock()
	u.deleted = true
	var tell []joinedGrads
	for _, b := range u.batches {
		u.drop(b)
		tell = append(tell, joinedGrads{b, nil, status.Errorf(status.Aborted, "The resource of the gradients was deleted.")})
	}
	for id, grad := range u.grads {
		delete(u.grads, id)
		grad.Release()
	}
	u.mu.Unlock()
	for _, e := range tell {
		e.finish()
	}
}
