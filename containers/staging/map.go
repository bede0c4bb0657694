package staging

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/view"
)

// Map is a staging area whose tuples have keys. A tuple may be inserted and removed in parts, by the indices of its components. It can be
// taken when it is complete. Methods work like those of Buffer.
type Map struct {
	area
	width   int // components of a tuple
	ordered bool
	// complete and incomplete hold the tuples; a nil component has not arrived or has been removed.
	complete, incomplete map[int64]*entry
	// order holds the keys of complete: ascending in an ordered map, otherwise in order of arrival.
	order    []int64
	finished int64 // tuples that have become complete
}

type entry struct {
	key      *tensor.Tensor
	tuple    []*tensor.Tensor
	complete int64 // how many had become complete with it; 0 for an incomplete one
}

// NewMap makes an empty map of tuples of width components. name is its name in messages. An ordered map returns the lowest key first if no
// key is given.
func NewMap(name string, width int, ordered bool, limits Limits) *Map {
	m := &Map{width: width, ordered: ordered, complete: map[int64]*entry{}, incomplete: map[int64]*entry{}}
	m.init(name, limits)
	return m
}

// Put adds the components at the indices, in ascending order, to the tuple with that key, an int64 tensor of any shape with one element. It
// takes over the references. A whole tuple waits for room, a part only for memory. A tuple is dropped if its key already has a complete
// one. The error is INVALID_ARGUMENT for bad indices and for components that already exist, RESOURCE_EXHAUSTED if there can never be room.
func (m *Map) Put(step waiting.Step, changes *durable.Tx, key *tensor.Tensor, indices []int32, values []*tensor.Tensor, done func(error)) (cancel func(cause error)) {
	owned := append(slices.Clone(values), key)
	id, bytes := tensor.Of[int64](key)[0], bytesOf(values)
	return m.put(step, owned, func() (bool, error) {
		if err := ascending(indices); err != nil {
			return true, err
		}
		if len(indices) != len(values) {
			return true, status.InvalidArgumentf("Number of indices '%d' does not match the number of values '%d'", len(indices), len(values))
		}
		if err := cmp.Or(m.admits(bytes), m.keepable(values, bytes)); err != nil {
			return true, err
		}
		if len(indices) != m.width {
			if !m.hasMemory(bytes) {
				return false, nil
			}
			return true, m.putPart(changes, key, id, indices, values, bytes)
		}
		if !m.fits(len(m.complete), bytes) {
			return false, nil
		}
		m.bytes += bytes
		e := &entry{key: key, tuple: values}
		if m.finish(id, e) {
			m.keeper.Change(changes, func(r durable.Recorder) { e.record(r, id) })
		}
		return true, nil
	}, done)
}

// putPart adds components to an incomplete tuple.
func (m *Map) putPart(changes *durable.Tx, key *tensor.Tensor, id int64, indices []int32, values []*tensor.Tensor, bytes int64) error {
	e, there := m.incomplete[id]
	for _, i := range indices {
		if err := m.within(id, i); err != nil {
			return err
		}
		if there && e.tuple[i] != nil {
			return status.InvalidArgumentf("The tensor for index '%d' for key '%d' was already initialized '%d'.", i, id, m.width)
		}
	}
	if there {
		key.Release() // the entry already has one
	} else {
		e = &entry{key: key, tuple: make([]*tensor.Tensor, m.width)}
		m.incomplete[id] = e
	}
	for k, i := range indices {
		e.tuple[i] = values[k]
	}
	m.bytes += bytes
	if slices.Contains(e.tuple, nil) {
		m.keeper.Change(changes, func(r durable.Recorder) { e.record(r, id) })
		return nil
	}
	was := e.diskKey(id)
	delete(m.incomplete, id)
	kept := m.finish(id, e)
	m.keeper.Change(changes, func(r durable.Recorder) {
		if r.Delete(was); kept {
			e.record(r, id)
		}
	})
	return nil
}

// finish makes a complete tuple available, or drops it if its key has one already.
func (m *Map) finish(id int64, e *entry) (kept bool) {
	if _, there := m.complete[id]; there {
		m.remove(e)
		return false
	}
	m.finished++
	e.complete = m.finished
	m.complete[id] = e
	at := len(m.order)
	if m.ordered {
		at, _ = slices.BinarySearch(m.order, id)
	}
	m.order = slices.Insert(m.order, at, id)
	return true
}

func (m *Map) remove(e *entry) {
	m.bytes -= bytesOf(e.tuple)
	release(e.tuple)
	e.key.Release()
}

// Take waits for the tuple with that key and removes its components at the indices, which are in ascending order. done owns them. The error
// is INVALID_ARGUMENT for bad indices and missing components.
func (m *Map) Take(step waiting.Step, changes *durable.Tx, key int64, indices []int32, done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	return m.find(step, key, indices, func(e *entry) ([]*tensor.Tensor, error) { return m.takeFrom(changes, key, e, indices) }, done)
}

// Peek is like Take, but does not remove the components.
func (m *Map) Peek(step waiting.Step, key int64, indices []int32, done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	return m.find(step, key, indices, func(e *entry) ([]*tensor.Tensor, error) {
		out := make([]*tensor.Tensor, len(indices))
		for k, i := range indices {
			out[k] = e.tuple[i].Retain()
		}
		return out, nil
	}, done)
}

func (m *Map) find(step waiting.Step, key int64, indices []int32, use func(*entry) ([]*tensor.Tensor, error), done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	var out []*tensor.Tensor
	return m.take(step, func() (bool, error) {
		if err := ascending(indices); err != nil {
			return true, err
		}
		e, there := m.complete[key]
		if !there {
			return false, nil
		}
		if err := m.has(key, e, indices); err != nil {
			return true, err
		}
		var err error
		out, err = use(e)
		return true, err
	}, func(err error) { done(out, err) })
}

// TakeAny is like Take, for any available tuple. It also returns the tuple's key, which done owns.
func (m *Map) TakeAny(step waiting.Step, changes *durable.Tx, indices []int32, done func(key *tensor.Tensor, tuple []*tensor.Tensor, err error)) (cancel func(cause error)) {
	var key *tensor.Tensor
	var out []*tensor.Tensor
	return m.take(step, func() (bool, error) {
		if err := ascending(indices); err != nil {
			return true, err
		}
		if len(m.complete) == 0 {
			return false, nil
		}
		id := m.order[0]
		e := m.complete[id]
		if err := m.has(id, e, indices); err != nil {
			return true, err
		}
		own := e.key.Retain() // the entry may end
		var err error
		if out, err = m.takeFrom(changes, id, e, indices); err != nil {
			own.Release()
			return true, err
		}
		key = own
		return true, nil
	}, func(err error) { done(key, out, err) })
}

// has checks that the components at the indices exist.
func (m *Map) has(key int64, e *entry, indices []int32) error {
	for _, i := range indices {
		if err := m.within(key, i); err != nil {
			return err
		}
		if e.tuple[i] == nil {
			return status.InvalidArgumentf("Tensor at index '%d' for key '%d' has already been removed.", i, key)
		}
	}
	return nil
}

// takeFrom takes components from an entry. The entry is removed with the last of them.
func (m *Map) takeFrom(changes *durable.Tx, key int64, e *entry, indices []int32) ([]*tensor.Tensor, error) {
	if bytes := int(bytesOf(e.tuple)); len(indices) < m.width { // what is left is written anew
		if err := m.keeper.Admits(durable.Replaces(bytes, bytes)); err != nil {
			return nil, err
		}
	} else if err := m.keeper.Admits(durable.Removes()); err != nil {
		return nil, err
	}
	out := make([]*tensor.Tensor, len(indices))
	for k, i := range indices {
		out[k], e.tuple[i] = e.tuple[i], nil
	}
	m.bytes -= bytesOf(out)
	if !slices.ContainsFunc(e.tuple, func(t *tensor.Tensor) bool { return t != nil }) {
		delete(m.complete, key)
		at := slices.Index(m.order, key)
		m.order = slices.Delete(m.order, at, at+1)
		e.key.Release()
		m.keeper.Change(changes, func(r durable.Recorder) { r.Delete(e.diskKey(key)) })
	} else {
		m.keeper.Change(changes, func(r durable.Recorder) { e.record(r, key) })
	}
	return out, nil
}

func (m *Map) within(key int64, i int32) error {
	if i < 0 || int(i) >= m.width {
		return status.InvalidArgumentf("Index '%d' for key '%d' was out of bounds '%d'.", i, key, m.width)
	}
	return nil
}

func ascending(indices []int32) error {
	if len(indices) == 0 {
		return status.InvalidArgumentf("Indices are empty")
	}
	for i := 1; i < len(indices); i++ {
		if indices[i-1] >= indices[i] {
			return status.InvalidArgumentf("Indices are not strictly ordered")
		}
	}
	return nil
}

// Size returns the number of complete tuples, including partly taken ones. IncompleteSize returns the number of the others.
func (m *Map) Size() (n int) {
	m.room.Look(func() { n = len(m.complete) })
	return n
}

// IncompleteSize returns the number of tuples that still lack components.
func (m *Map) IncompleteSize() (n int) {
	m.room.Look(func() { n = len(m.incomplete) })
	return n
}

// Clear drops all tuples.
func (m *Map) Clear(step waiting.Step, changes *durable.Tx, done func(error)) (cancel func(cause error)) {
	return m.take(step, func() (bool, error) {
		if err := m.keeper.Admits(durable.Removes()); err != nil {
			return true, err
		}
		m.keeper.Change(changes, func(r durable.Recorder) {
			for _, all := range []map[int64]*entry{m.complete, m.incomplete} {
				for id, e := range all {
					r.Delete(e.diskKey(id))
				}
			}
		})
		m.drop()
		return true, nil
	}, done)
}

func (m *Map) drop() {
	for _, all := range []map[int64]*entry{m.complete, m.incomplete} {
		for _, e := range all {
			m.remove(e)
		}
		clear(all)
	}
	m.order = nil
}

// Close deletes the map.
func (m *Map) Close() { m.close(m.drop) }

// Describe describes the map for listings.
func (m *Map) Describe() string {
	return fmt.Sprintf("staging map of %d components, %d tuples, %d incomplete", m.width, m.Size(), m.IncompleteSize())
}

// Show adds the map's state to a listing.
func (m *Map) Show(r *view.Resource) {
	m.show(r, "staging map", func() (int, int) { return len(m.complete), len(m.incomplete) })
}
