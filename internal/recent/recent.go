// Package recent remembers what was added last.
package recent

// Map is a map of a bounded number of entries: adding another one forgets the one that was added first. Its methods must not be called
// concurrently.
type Map[K comparable, V any] struct {
	most    int
	entries map[K]entry[V]
	order   []slot[K] // in the order of their serial numbers from first on, once there are most of them
	first   int
	serial  uint64 // of the last addition
}

type entry[V any] struct {
	value  V
	serial uint64
}

// slot is an addition. Its entry may have been deleted, or added again, since.
type slot[K comparable] struct {
	key    K
	serial uint64
}

// NewMap returns an empty map of up to most entries. It takes memory as entries are added.
func NewMap[K comparable, V any](most int) *Map[K, V] {
	return &Map[K, V]{most: most, entries: map[K]entry[V]{}}
}

// Add sets the value of a key, which is then the last one added.
func (m *Map[K, V]) Add(key K, value V) {
	m.serial++
	s := slot[K]{key, m.serial}
	if len(m.order) < m.most {
		m.order = append(m.order, s)
	} else {
		old := &m.order[m.first]
		if m.entries[old.key].serial == old.serial {
			delete(m.entries, old.key)
		}
		*old = s
		m.first = (m.first + 1) % m.most
	}
	m.entries[key] = entry[V]{value, m.serial}
}

// Get returns the value of a key.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	e, ok := m.entries[key]
	return e.value, ok
}

// Delete removes a key, and reports whether it was there. Until as many others have been added as the map may have, its place is not used again.
func (m *Map[K, V]) Delete(key K) bool {
	_, ok := m.entries[key]
	delete(m.entries, key)
	return ok
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return len(m.entries) }
