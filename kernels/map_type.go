package kernels

import (
	varint "encoding/binary"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// tensorMap is what a variant scalar holds for TensorFlow's map ops: tensors by keys that are tensors, of
// any types. It counts its references, and may be changed only as a tensorList may. The order
// is that of insertion, as long as nothing is erased.
type tensorMap struct {
	refs         atomic.Int32
	rows         map[string]int // of keys, as mapKey writes them
	keys, values []*tensor.Tensor
	depth        int // see tensorList
}

func newTensorMap() *tensorMap {
	m := &tensorMap{rows: map[string]int{}}
	m.refs.Store(1)
	return m
}

// Retain adds a reference.
func (m *tensorMap) Retain() { m.refs.Add(1) }

// Release drops a reference, after the last one those to keys and values.
func (m *tensorMap) Release() {
	if m.refs.Add(-1) == 0 {
		releaseTensors(m.keys)
		releaseTensors(m.values)
		m.rows, m.keys, m.values = nil, nil, nil
	}
}

// nested is how deep the map's values go.
func (m *tensorMap) nested() int { return m.depth }

// clone is a map of its own of the same tensors.
func (m *tensorMap) clone() *tensorMap {
	c := &tensorMap{rows: maps.Clone(m.rows), keys: slices.Clone(m.keys), values: slices.Clone(m.values), depth: m.depth}
	c.refs.Store(1)
	for i := range c.keys {
		c.keys[i].Retain()
		c.values[i].Retain()
	}
	return c
}

// put sets the value of a key and takes over both references.
func (m *tensorMap) put(name string, key, value *tensor.Tensor) {
	if row, ok := m.rows[name]; ok {
		m.values[row].Release()
		m.values[row] = value
		key.Release()
		return
	}
	m.rows[name] = len(m.keys)
	m.keys, m.values = append(m.keys, key), append(m.values, value)
}

// erase removes a key that is there. The last one takes its row.
func (m *tensorMap) erase(name string) {
	row, last := m.rows[name], len(m.keys)-1
	delete(m.rows, name)
	m.keys[row].Release()
	m.values[row].Release()
	if row != last {
		moved, _ := mapKey(m.keys[last])
		m.rows[moved] = row
	}
	m.keys[row], m.values[row] = m.keys[last], m.values[last]
	m.keys[last], m.values[last] = nil, nil
	m.keys, m.values = m.keys[:last], m.values[:last]
}

// mapKey writes a key so that two keys are equal if type, shape and elements are: floats by their bits.
func mapKey(t *tensor.Tensor) (string, error) {
	b := varint.AppendUvarint(nil, uint64(t.DType()))
	b = varint.AppendUvarint(b, uint64(t.Rank()))
	for _, d := range t.Shape() {
		b = varint.AppendUvarint(b, uint64(d))
	}
	switch t.DType() {
	case tensor.String:
		for _, s := range t.Strings() {
			b = varint.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	case tensor.Variant, tensor.Resource:
		return "", status.InvalidArgumentf("A key of a map of tensors cannot be of type %v", t.DType())
	default:
		b = append(b, t.Data()...)
	}
	return string(b), nil
}

// mapInput is the map that input 0 holds and, for ops that take a key, what mapKey says of it.
func mapInput(ctx *Context) (m *tensorMap, key string, err error) {
	t := ctx.Input(0)
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, "", status.InvalidArgumentf("Input map must be a scalar. Saw: %v", t.Shape())
	}
	m, ok := t.Variants()[0].(*tensorMap)
	if !ok {
		return nil, "", status.InvalidArgumentf("Input handle is not a map. Saw: '%s'", variantText(t.Variants()[0]))
	}
	if len(ctx.Inputs) > 1 {
		key, err = mapKey(ctx.Input(1))
	}
	return m, key, err
}

// changeableMap makes output 0 the map of input 0 for changing: the map itself where nobody else
// sees it, or else a clone.
func changeableMap(ctx *Context, m *tensorMap) (*tensorMap, error) {
	if t := ctx.Input(0); t.Exclusive() && m.refs.Load() == 1 {
		ctx.Pass(0, 0)
		return m, nil
	}
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		return nil, err
	}
	m = m.clone()
	out.Variants()[0] = m
	return m, nil
}
