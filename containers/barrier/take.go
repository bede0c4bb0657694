package barrier

import (
	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// Taken holds tuples taken together: vectors of their indices and keys, and for each component a tensor with one row per tuple. The
// receiver owns them.
type Taken struct {
	Indices, Keys *tensor.Tensor
	Components    []*tensor.Tensor
}

// All returns the tensors in the order of the op's outputs.
func (t *Taken) All() []*tensor.Tensor {
	return append([]*tensor.Tensor{t.Indices, t.Keys}, t.Components...)
}

// TakeMany waits for n tuples, those with the lowest indices, and removes them. With smallBatch, a closed barrier returns fewer, but at
// least one. The error is OUT_OF_RANGE if a closed barrier cannot have enough tuples, CANCELLED if the caller's step ended or cancel was
// called, ABORTED if the barrier was deleted.
func (b *Barrier) TakeMany(step waiting.Step, changes *durable.Tx, n int, smallBatch bool, done func(*Taken, error)) (cancel func(cause error)) {
	if n < 0 {
		done(nil, status.InvalidArgumentf("TakeMany requested %d < 0 elements", n))
		return func(error) {}
	}
	var taken *Taken
	var err error
	// Incomplete tuples count only at the time of the request; after that, it waits.
	b.room.Look(func() { n, err = b.promised(n, smallBatch) })
	if err != nil {
		done(nil, err)
		return func(error) {}
	}
	return b.takes.Ask(step, func() (over bool, err error) {
		ready := len(b.ready)
		switch {
		case ready >= n:
		case !b.drained:
			return false, nil
		case !smallBatch || ready == 0:
			return true, status.Errorf(status.OutOfRange, "PriorityQueue '%s_queue' is closed and has insufficient elements (requested %d, current size %d).%s",
				b.options.Name, n, ready, b.closedBy())
		}
		if err = b.keeper.Admits(durable.Removes()); err == nil {
			taken, err = b.take(changes, min(n, ready))
		}
		return true, err
	}, "Dequeue operation was cancelled", func(err error) { done(taken, err) })
}

// promised returns the number of tuples that a new request waits for.
func (b *Barrier) promised(n int, smallBatch bool) (int, error) {
	if !b.closed {
		return n, nil
	}
	available := len(b.ready)
	if smallBatch {
		n = min(n, available)
	} else {
		available += len(b.incomplete)
	}
	if available < max(n, 1) {
		return 0, status.Errorf(status.OutOfRange, "Barrier '%s' is closed and has insufficient elements (requested %d, total size %d).%s", b.options.Name, n, available, b.closedBy())
	}
	return n, nil
}

// take gathers the first n tuples. If it fails, they all stay in the barrier.
func (b *Barrier) take(changes *durable.Tx, n int) (*Taken, error) {
	var made []*tensor.Tensor
	make := func(d tensor.DType, s tensor.Shape) (*tensor.Tensor, error) {
		t, err := tensor.New(b.options.Pool, d, append(tensor.Shape{int64(n)}, s...))
		if err == nil {
			made = append(made, t)
			return t, nil
		}
		for _, t := range made {
			t.Release()
		}
		return nil, err
	}
	indices, err := make(tensor.Int64, nil)
	if err != nil {
		return nil, err
	}
	keys, err := make(tensor.String, nil)
	if err != nil {
		return nil, err
	}
	for i, d := range b.options.DTypes {
		if _, err := make(d, b.options.Shapes[i]); err != nil {
			return nil, err
		}
	}
	b.keeper.Change(changes, func(r durable.Recorder) {
		for _, e := range b.ready[:n] {
			e.recordGone(r)
		}
	})
	taken := &Taken{Indices: indices, Keys: keys, Components: made[2:]}
	for i, e := range b.ready[:n] {
		tensor.Of[int64](indices)[i], keys.Strings()[i] = e.index, e.key
		for c, t := range e.components {
			taken.Components[c].CopyElements(i*t.Len(), t, 0, t.Len())
		}
		e.release()
		b.ready[i] = nil
	}
	b.ready = b.ready[n:]
	return taken, nil
}
