package table

import (
	"sync"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// mutable is a table that can change: TensorFlow's MutableHashTable, whose values are scalars, and MutableHashTableOfTensors, whose values
// are vectors.
type mutable[K comparable, V any] struct {
	base
	mu      sync.RWMutex
	entries *entries[K, V]
}

func (m *mutable[K, V]) kind() Kind { return Mutable }

func (m *mutable[K, V]) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.entries.len()
}

func (m *mutable[K, V]) Bytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.entries.bytes()
}

func (m *mutable[K, V]) Describe() string { return m.describe(m.Len(), m.Bytes()) }

func (m *mutable[K, V]) Find(keys, defaults *tensor.Tensor, allocate func(tensor.DType, tensor.Shape) (*tensor.Tensor, error)) error {
	shape, err := m.checkFind(keys, defaults)
	if err != nil {
		return err
	}
	out, err := allocate(m.to.DType, shape)
	if err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.entries
	e.find(e.value.of(out), e.key.of(keys), e.value.of(defaults), defaults.Len() == out.Len())
	return nil
}

func (m *mutable[K, V]) Insert(by *durable.Tx, keys, values *tensor.Tensor) error {
	return m.put(by, keys, values, false)
}

func (m *mutable[K, V]) Import(by *durable.Tx, keys, values *tensor.Tensor) error {
	return m.put(by, keys, values, true)
}

func (m *mutable[K, V]) put(by *durable.Tx, keys, values *tensor.Tensor, only bool) error {
	if err := m.checkEntries(keys, values); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries
	in, v := e.key.of(keys), e.value.of(values)
	if err := m.keeper.Admits(m.need(in, v, only)); err != nil {
		return err
	}
	var gone []K
	if only {
		gone = e.keys
		e.clear()
	}
	err := e.room(len(in))
	if err == nil {
		e.put(in, v)
	}
	m.keeper.Change(by, func(r durable.Recorder) {
		if recordDelete(r, e.key, gone, 1); err == nil {
			recordSet(r, e.key, e.value, in, 1, v, e.width)
		}
	})
	return err
}

// need returns what putting entries into the table needs on disk, after all others were removed if there are only these.
func (m *mutable[K, V]) need(keys []K, values []V, only bool) durable.Need {
	e := m.entries
	switch {
	case !m.keeper.Kept():
		return durable.Removes()
	case only:
		return durable.Replaces(encoded(e.key, e.value, e.keys, 1, e.values), encoded(e.key, e.value, keys, 1, values))
	}
	return putting(e.key, e.value, keys, 1, values, func(k []K) []V {
		if row, ok := e.rows[k[0]]; ok {
			return e.row(row)
		}
		return nil
	})
}

func (m *mutable[K, V]) Remove(by *durable.Tx, keys *tensor.Tensor) error {
	if err := m.checkKeys(keys); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.keeper.Admits(durable.Removes()); err != nil {
		return err
	}
	in := m.entries.key.of(keys)
	m.entries.remove(in)
	m.keeper.Change(by, func(r durable.Recorder) { recordDelete(r, m.entries.key, in, 1) })
	return nil
}

func (m *mutable[K, V]) Export(pool *tensor.Pool) (keys, values *tensor.Tensor, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.entries.export(pool, len(m.to.Shape) > 0)
}

// Close drops the entries, since variants may hold memory of a pool.
func (m *mutable[K, V]) Close() {
	m.base.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries.clear()
}
