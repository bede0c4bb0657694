package table

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// entries is a hash map whose keys and values are stored contiguously in the order of insertion, so exporting them takes two copies. The
// last entry replaces a removed one. It is not safe for concurrent use.
type entries[K comparable, V any] struct {
	key    element[K]
	value  element[V]
	width  int // elements of one value
	rows   map[K]int
	keys   []K
	values []V // width values for each key
	extra  int64
}

func newEntries[K comparable, V any](key element[K], value element[V], width int) *entries[K, V] {
	return &entries[K, V]{key: key, value: value, width: width, rows: map[K]int{}}
}

func (e *entries[K, V]) len() int { return len(e.keys) }

// entryBytes is the map's memory for an entry beyond the key: the row and the control byte, at its usual load.
const entryBytes = 12

func (e *entries[K, V]) bytes() int64 {
	return int64(cap(e.keys))*e.key.size + int64(cap(e.values))*e.value.size + int64(len(e.rows))*(e.key.size+entryBytes) + e.extra
}

// row returns the value of row i.
func (e *entries[K, V]) row(i int) []V { return e.values[i*e.width : (i+1)*e.width] }

// find fills out. A missing key gets its default: the only value of defaults or, if each is set, the one at the same position.
func (e *entries[K, V]) find(out []V, keys []K, defaults []V, each bool) {
	for i, k := range keys {
		found := defaults
		if row, ok := e.rows[k]; ok {
			found = e.row(row)
		} else if each {
			found = defaults[i*e.width : (i+1)*e.width]
		}
		e.value.copy(out[i*e.width:(i+1)*e.width], found[:min(e.width, len(found))])
	}
}

// add adds an entry whose key is not in the map.
func (e *entries[K, V]) add(k K, v []V) {
	if e.key.own != nil {
		k = e.key.own(k)
	}
	e.rows[k] = len(e.keys)
	e.keys = append(e.keys, k)
	at := len(e.values)
	e.values = append(e.values, v...)
	e.value.keep(e.values[at:], v)
	e.extra += e.key.extras([]K{k}) + e.value.extras(v)
}

// put adds entries or replaces their values.
func (e *entries[K, V]) put(keys []K, values []V) {
	for i, k := range keys {
		v := values[i*e.width : (i+1)*e.width]
		row, ok := e.rows[k]
		if !ok {
			e.add(k, v)
			continue
		}
		old := e.row(row)
		e.extra += e.value.extras(v) - e.value.extras(old)
		for j, x := range v {
			e.value.set(old, j, x)
		}
	}
}

func (e *entries[K, V]) remove(keys []K) {
	for _, k := range keys {
		row, ok := e.rows[k]
		if !ok {
			continue
		}
		e.extra -= e.key.extras([]K{k}) + e.value.extras(e.row(row))
		delete(e.rows, k)
		last := len(e.keys) - 1
		if e.value.drop != nil {
			for _, v := range e.row(row) {
				e.value.drop(v)
			}
		}
		if row != last {
			e.keys[row] = e.keys[last]
			e.rows[e.keys[row]] = row
			copy(e.row(row), e.row(last))
		}
		clear(e.keys[last:])
		clear(e.row(last))
		e.keys, e.values = e.keys[:last], e.values[:last*e.width]
	}
}

// clear removes all entries and releases their memory.
func (e *entries[K, V]) clear() {
	if e.value.drop != nil {
		for _, v := range e.values {
			e.value.drop(v)
		}
	}
	*e = *newEntries(e.key, e.value, e.width)
}

// export makes tensors of all entries. With vectors, values are vectors even if they have only one element.
func (e *entries[K, V]) export(pool *tensor.Pool, vectors bool) (keys, values *tensor.Tensor, err error) {
	shape := tensor.Shape{int64(len(e.keys))}
	if keys, err = tensor.New(pool, e.key.dtype, shape); err != nil {
		return nil, nil, err
	}
	if vectors {
		shape = append(shape, int64(e.width))
	}
	if values, err = tensor.New(pool, e.value.dtype, shape); err != nil {
		keys.Release()
		return nil, nil, err
	}
	e.key.copy(e.key.of(keys), e.keys)
	e.value.copy(e.value.of(values), e.values)
	return keys, values, nil
}

// maxEntries bounds a table in memory: each entry takes at least tens of bytes.
const maxEntries = 1 << 31

func (e *entries[K, V]) room(n int) error {
	if n > maxEntries-len(e.keys) {
		return status.Errorf(status.ResourceExhausted, "OOM when a table of %d entries gets %d more", len(e.keys), n)
	}
	return nil
}
