package barrier

import (
	"math"
	"slices"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// InsertMany inserts one component for each key: the row of values, which are borrowed, at the key's position. Tuples that become complete
// are ready. New keys of one call have the same index. After an error, the keys before the one that it is about are inserted, and nothing of
// that one is. The error is INVALID_ARGUMENT for values that do not match the keys, have no elements or already exist, and for complete
// tuples of the wrong shape, which are dropped. It is CANCELLED for insertions that a closed barrier refuses, and RESOURCE_EXHAUSTED without
// memory for a value.
func (b *Barrier) InsertMany(changes *durable.Tx, component int, keys []string, values *tensor.Tensor) error {
	return b.room.Do(func() error {
		if err := b.insertable(keys, values); err != nil {
			return err
		}
		fresh := false
		var touched []*element
		defer func() {
			if fresh {
				b.index++
			}
			b.drained = b.closed && len(b.incomplete) == 0
			b.keeper.Change(changes, func(r durable.Recorder) { b.recordInsertion(r, fresh, touched) })
		}()
		for i, key := range keys {
			e, isNew, err := b.elementOf(key, i)
			if err != nil {
				return err
			}
			if e.components[component] != nil {
				return status.InvalidArgumentf("Key %s already has a value for component %d in barrier %s", key, component, b.options.Name)
			}
			one, err := row(values, i, b.options.Pool)
			if err != nil {
				return err
			}
			if isNew {
				b.incomplete[key] = e
				b.elements++
			}
			e.components[component], fresh, touched = one, fresh || isNew, append(touched, e)
			if err := b.complete(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// insertable performs the checks that do not depend on individual keys.
func (b *Barrier) insertable(keys []string, values *tensor.Tensor) error {
	name := b.options.Name
	switch {
	case len(keys) > 0 && values.Len() == 0:
		return status.InvalidArgumentf("Tensors with no elements are not supported %s: received shape %v", name, values.Shape())
	case len(keys) > 0 && (values.Rank() == 0 || values.Dim(0) != len(keys)):
		return status.InvalidArgumentf("Barrier %s got %d keys, but values of shape %v", name, len(keys), values.Shape())
	case b.closed && (b.cancelled || len(keys) > 0 && len(b.incomplete) == 0):
		return status.Errorf(status.Cancelled, "Barrier %s is closed.  Pending enqueues cancelled: %d.  Number of new insertions: %d.  Number of incomplete keys: %d.%s",
			name, b.cancelling(), len(keys), len(b.incomplete), b.closedBy())
	case b.index == math.MaxInt64-1:
		return status.Internalf("Barrier has had %d insertions and can no longer keep track of new ones.", b.index)
	}
	return b.keeper.Admits(durable.Adds(values.ByteSize() + bytesOf(keys)))
}

func bytesOf(keys []string) (n int) {
	for _, k := range keys {
		n += len(k)
	}
	return n
}

func (b *Barrier) cancelling() int {
	if b.cancelled {
		return 1
	}
	return 0
}

// elementOf returns the tuple of a key, or a new one, which the barrier does not have yet, unless it is closed.
func (b *Barrier) elementOf(key string, i int) (e *element, isNew bool, err error) {
	if e, there := b.incomplete[key]; there {
		return e, false, nil
	}
	if b.closed {
		return nil, false, status.Errorf(status.Cancelled, "Barrier %s is closed, but attempted to insert a brand new key: %s.  Pending enqueues cancelled: %d.  Insertion index: %d.  Number of incomplete keys: %d.%s",
			b.options.Name, key, b.cancelling(), i, len(b.incomplete), b.closedBy())
	}
	return &element{number: b.elements, index: b.index, key: key, components: make([]*tensor.Tensor, len(b.options.DTypes))}, true, nil
}

// complete makes a tuple ready if it has all its components. A tuple of the wrong shape is dropped.
func (b *Barrier) complete(e *element) error {
	if slices.Contains(e.components, nil) {
		return nil
	}
	delete(b.incomplete, e.key)
	for i, want := range b.options.Shapes {
		if have := e.components[i].Shape(); !have.Equal(want) {
			e.release()
			// The index and the key count as components, too.
			return status.InvalidArgumentf("Shape mismatch in tuple component %d. Expected %v, got %v", i+2, want, have)
		}
	}
	b.completed++
	e.complete = b.completed
	at := sort.Search(len(b.ready), func(i int) bool { return b.ready[i].index > e.index })
	b.ready = slices.Insert(b.ready, at, e)
	return nil
}

// row returns a copy of row i; a tuple that waits for long must not keep the whole inserted tensor alive.
func row(values *tensor.Tensor, i int, pool *tensor.Pool) (*tensor.Tensor, error) {
	view := values.Rows(i, i+1)
	defer view.Release()
	one := view.Reshaped(values.Shape()[1:])
	defer one.Release()
	return one.Clone(pool)
}
