package kernels

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// The names under which elements of variant tensors travel, TensorFlow's.
const (
	listName   = "tensorflow::TensorList"
	optionName = "tensorflow::data::Optional"
	raggedName = "RaggedTensorVariant"
	boxedName  = "tensorflow::Tensor"
	mapName    = "tensorflow::TensorMap"
)

func init() {
	tensor.RegisterVariant(listName, readList)
	tensor.RegisterVariant(optionName, readOptional)
	tensor.RegisterVariant(raggedName, readRagged)
	tensor.RegisterVariant(boxedName, readBoxed)
	tensor.RegisterVariant(mapName, readMap)
}

// Portable is the list in TensorFlow's form. Its metadata are varints (how many elements are not set, which
// ones, the elements' type, the most elements) and a shape.
func (l *tensorList) Portable() tensor.VariantData {
	d := tensor.VariantData{Type: listName}
	var missing []byte
	n := uint64(0)
	for i, t := range l.elems {
		if t == nil {
			missing = protowire.AppendVarint(missing, uint64(i))
			n++
		} else {
			d.Tensors = append(d.Tensors, t)
		}
	}
	d.Metadata = append(protowire.AppendVarint(nil, n), missing...)
	d.Metadata = protowire.AppendVarint(d.Metadata, uint64(l.dtype))
	d.Metadata = protowire.AppendVarint(d.Metadata, uint64(int64(l.max)))
	shape := &shapepb.TensorShapeProto{UnknownRank: true}
	if l.shape.known {
		shape = l.shape.dims.Proto()
	}
	// A message of sizes can always be encoded.
	d.Metadata, _ = proto.MarshalOptions{}.MarshalAppend(d.Metadata, shape)
	return d
}

var errBadList = status.InvalidArgumentf("The description of a list of tensors is malformed")

// readList makes a list of what travelled. The elements' types and shapes are checked, since other
// ops rely on them.
func readList(d tensor.VariantData) (any, error) {
	rest := d.Metadata
	next := func() uint64 {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			rest = nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	missing := next()
	if missing > uint64(len(rest)) {
		return nil, errBadList // each takes a byte
	}
	total := uint64(len(d.Tensors)) + missing
	unset := map[uint64]bool{}
	for range missing {
		i := next()
		if i >= total || unset[i] {
			return nil, errBadList
		}
		unset[i] = true
	}
	dtype, most := tensor.DType(next()), int64(next())
	var p shapepb.TensorShapeProto
	if err := proto.Unmarshal(rest, &p); err != nil || !dtype.Valid() || dtype.IsRef() || most < -1 || most > maxList {
		return nil, errBadList
	}
	shape := partialShape{known: !p.GetUnknownRank()}
	if shape.known {
		shape.dims, _ = tensor.ShapeFromProto(&p)
	}
	l, err := newTensorList(dtype, shape, int(total))
	if err != nil {
		return nil, err
	}
	l.max = int(most)
	tensors := d.Tensors
	for i := range l.elems {
		if unset[uint64(i)] {
			continue
		}
		t := tensors[0]
		if t.DType() != dtype || !shape.admits(t.Shape()) {
			return nil, errBadList
		}
		if err := l.admit(t); err != nil {
			return nil, err
		}
		l.elems[i], tensors = t, tensors[1:]
	}
	return l, nil
}

// Portable is the optional in TensorFlow's form: one byte tells whether there is a value.
func (o *optional) Portable() tensor.VariantData {
	return tensor.VariantData{Type: optionName, Metadata: []byte{byte(oneIf(o.has))}, Tensors: o.list}
}

func readOptional(d tensor.VariantData) (any, error) {
	if len(d.Metadata) != 1 {
		return nil, status.InvalidArgumentf("The description of an optional is malformed")
	}
	o := newOptional(d.Metadata[0] != 0, d.Tensors)
	if o.depth > maxNesting {
		return nil, tooDeep()
	}
	return o, nil
}

// Portable is the ragged tensor in TensorFlow's form: splits, then values.
func (r *ragged) Portable() tensor.VariantData {
	return tensor.VariantData{Type: raggedName, Tensors: append(append([]*tensor.Tensor(nil), r.splits...), r.values)}
}

func readRagged(d tensor.VariantData) (any, error) {
	n := len(d.Tensors) - 1
	if n < 0 {
		return nil, status.InvalidArgumentf("The description of a ragged tensor has no values")
	}
	values := d.Tensors[n]
	for i := n - 1; i >= 0; i-- {
		rows := int64(-1)
		if i == n-1 && values.Rank() > 0 {
			rows = int64(values.Dim(0))
		} else if i < n-1 {
			rows = int64(d.Tensors[i+1].Len() - 1)
		}
		if _, err := checkSplits(d.Tensors[i], rows); err != nil {
			return nil, err
		}
	}
	if nesting(values) >= maxNesting {
		return nil, tooDeep()
	}
	return newRagged(d.Tensors[:n:n], values), nil
}

// Portable is the tensor itself.
func (b boxed) Portable() tensor.VariantData {
	return tensor.VariantData{Type: boxedName, Tensors: []*tensor.Tensor{b.t}}
}

func readBoxed(d tensor.VariantData) (any, error) {
	if len(d.Tensors) != 1 {
		return nil, status.InvalidArgumentf("A variant that holds a tensor comes with %d", len(d.Tensors))
	}
	if nesting(d.Tensors[0]) >= maxNesting {
		return nil, tooDeep()
	}
	return boxed{d.Tensors[0]}, nil
}

// Portable is the map in TensorFlow's form: each key before its value.
func (m *tensorMap) Portable() tensor.VariantData {
	d := tensor.VariantData{Type: mapName}
	for i, key := range m.keys {
		d.Tensors = append(d.Tensors, key, m.values[i])
	}
	return d
}

func readMap(d tensor.VariantData) (any, error) {
	m := newTensorMap()
	if len(d.Tensors)%2 != 0 {
		return nil, status.InvalidArgumentf("The description of a map of tensors has a key without a value")
	}
	for i := 0; i < len(d.Tensors); i += 2 {
		key, value := d.Tensors[i], d.Tensors[i+1]
		name, err := mapKey(key)
		if err != nil {
			return nil, err
		}
		if _, there := m.rows[name]; there {
			return nil, status.InvalidArgumentf("The description of a map of tensors has a key twice")
		}
		if m.depth = max(m.depth, nesting(value)); m.depth > maxNesting {
			return nil, tooDeep()
		}
		m.put(name, key, value)
	}
	return m, nil
}
