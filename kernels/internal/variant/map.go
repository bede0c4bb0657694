package variant

import (
	varint "encoding/binary"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// TensorMap is the variant element of TensorFlow's map ops: it maps keys that are tensors to tensors, of any types. It is reference-counted
// and may be changed under the same condition as a TensorList. It keeps insertion order as long as nothing is erased.
type TensorMap struct {
	Refs         atomic.Int32
	Rows         map[string]int // index of each key, as encoded by MapKey
	Keys, Values []*tensor.Tensor
	Depth        int // see TensorList
}

// NewTensorMap returns an empty map, with one reference.
func NewTensorMap() *TensorMap {
	m := &TensorMap{Rows: map[string]int{}}
	m.Refs.Store(1)
	return m
}

// Retain adds a reference.
func (m *TensorMap) Retain() { m.Refs.Add(1) }

// Release releases a reference; the last one releases the keys and values.
func (m *TensorMap) Release() {
	if m.Refs.Add(-1) == 0 {
		kernels.ReleaseTensors(m.Keys)
		kernels.ReleaseTensors(m.Values)
		m.Rows, m.Keys, m.Values = nil, nil, nil
	}
}

// Nested returns the nesting depth of the map's values.
func (m *TensorMap) Nested() int { return m.Depth }

// Clone returns an independent map of the same tensors.
func (m *TensorMap) Clone() *TensorMap {
	c := &TensorMap{Rows: maps.Clone(m.Rows), Keys: slices.Clone(m.Keys), Values: slices.Clone(m.Values), Depth: m.Depth}
	c.Refs.Store(1)
	for i := range c.Keys {
		c.Keys[i].Retain()
		c.Values[i].Retain()
	}
	return c
}

// Put sets the value of a key and takes over both references.
func (m *TensorMap) Put(name string, key, value *tensor.Tensor) {
	if row, ok := m.Rows[name]; ok {
		m.Values[row].Release()
		m.Values[row] = value
		key.Release()
		return
	}
	m.Rows[name] = len(m.Keys)
	m.Keys, m.Values = append(m.Keys, key), append(m.Values, value)
}

// Erase removes an existing key. The last entry takes its row.
func (m *TensorMap) Erase(name string) {
	row, last := m.Rows[name], len(m.Keys)-1
	delete(m.Rows, name)
	m.Keys[row].Release()
	m.Values[row].Release()
	if row != last {
		moved, _ := MapKey(m.Keys[last])
		m.Rows[moved] = row
	}
	m.Keys[row], m.Values[row] = m.Keys[last], m.Values[last]
	m.Keys[last], m.Values[last] = nil, nil
	m.Keys, m.Values = m.Keys[:last], m.Values[:last]
}

// MapKey encodes a key: two keys encode equally if their types, shapes and elements are equal. Floats are compared by their bits.
func MapKey(t *tensor.Tensor) (string, error) {
	b := varint.AppendUvarint(nil, uint64(t.DType()))
	b = varint.AppendUvarint(b, uint64(t.Rank()))
	for _, d := range t.Shape() {
		b = varint.AppendUvarint(b, uint64(d))
	}
	if t.DType().Size() > 0 {
		return string(append(b, t.Data()...)), nil
	}
	if t.DType() != tensor.String {
		return "", status.InvalidArgumentf("A key of a map of tensors cannot be of type %v", t.DType())
	}
	for _, s := range t.Strings() {
		b = varint.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return string(b), nil
}
