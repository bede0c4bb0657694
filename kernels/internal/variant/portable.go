package variant

import (
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	protos "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const compositeName = "CompositeTensorVariant"

// Portable returns the composite tensor's type specification and components.
func (c *Composite) Portable() tensor.VariantData {
	return tensor.VariantData{Type: compositeName, Metadata: []byte(c.Metadata), Tensors: c.Components}
}

func readComposite(d tensor.VariantData) (any, error) {
	var m protos.CompositeTensorVariantMetadata
	if err := tensor.Unmarshal(d.Metadata, &m); err != nil {
		return nil, status.InvalidArgumentf("The message of a composite tensor has malformed metadata: %v", err)
	}
	c := &Composite{Class: m.GetTypeSpecProto().GetTypeSpecClass(), Metadata: string(d.Metadata), Components: d.Tensors}
	for _, t := range d.Tensors {
		c.Depth = max(c.Depth, Nesting(t))
	}
	if c.Depth > MaxNesting {
		return nil, TooDeep()
	}
	c.Refs.Store(1)
	return c, nil
}

// TensorFlow's type names for elements of encoded variant tensors.
const (
	listName   = "tensorflow::TensorList"
	optionName = "tensorflow::data::Optional"
	raggedName = "RaggedTensorVariant"
	boxedName  = "tensorflow::Tensor"
	mapName    = "tensorflow::TensorMap"
)

// Portable returns the list in TensorFlow's form. Its metadata is varints (the number of unset elements, their indices, the elements' type,
// the maximum length) followed by a shape.
func (l *TensorList) Portable() tensor.VariantData {
	d := tensor.VariantData{Type: listName}
	var missing []byte
	n := uint64(0)
	for i, t := range l.Elems {
		if t == nil {
			missing = protowire.AppendVarint(missing, uint64(i))
			n++
		} else {
			d.Tensors = append(d.Tensors, t)
		}
	}
	d.Metadata = append(protowire.AppendVarint(nil, n), missing...)
	d.Metadata = protowire.AppendVarint(d.Metadata, uint64(l.DType))
	d.Metadata = protowire.AppendVarint(d.Metadata, uint64(int64(l.Max)))
	shape := &shapepb.TensorShapeProto{UnknownRank: true}
	if l.Shape.Known {
		shape = l.Shape.Dims.Proto()
	}
	// Encoding a message of sizes cannot fail.
	d.Metadata, _ = proto.MarshalOptions{}.MarshalAppend(d.Metadata, shape)
	return d
}

var errBadList = status.InvalidArgumentf("The description of a list of tensors is malformed")

// readList decodes a received list. It checks the elements' types and shapes, since ops rely on them.
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
		return nil, errBadList // each takes at least a byte
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
	if err := tensor.Unmarshal(rest, &p); err != nil || !dtype.Valid() || dtype.IsRef() || most < -1 || most > MaxList {
		return nil, errBadList
	}
	shape := shapes.PartialShape{Known: !p.GetUnknownRank()}
	if shape.Known {
		shape.Dims, _ = tensor.ShapeFromProto(&p)
	}
	l, err := NewTensorList(dtype, shape, int(total))
	if err != nil {
		return nil, err
	}
	l.Max = int(most)
	tensors := d.Tensors
	for i := range l.Elems {
		if unset[uint64(i)] {
			continue
		}
		t := tensors[0]
		if t.DType() != dtype || !shape.Admits(t.Shape()) {
			return nil, errBadList
		}
		if err := l.Admit(t); err != nil {
			return nil, err
		}
		l.Elems[i], tensors = t, tensors[1:]
	}
	return l, nil
}

// Portable returns the optional in TensorFlow's form: one byte reports whether there is a value.
func (o *Optional) Portable() tensor.VariantData {
	return tensor.VariantData{Type: optionName, Metadata: []byte{byte(element.OneIf(o.Has))}, Tensors: o.List}
}

func readOptional(d tensor.VariantData) (any, error) {
	if len(d.Metadata) != 1 {
		return nil, status.InvalidArgumentf("The description of an optional is malformed")
	}
	o := NewOptional(d.Metadata[0] != 0, d.Tensors)
	if o.depth > MaxNesting {
		return nil, TooDeep()
	}
	return o, nil
}

// Portable returns the ragged tensor in TensorFlow's form: splits, then values.
func (r *Ragged) Portable() tensor.VariantData {
	return tensor.VariantData{Type: raggedName, Tensors: append(append([]*tensor.Tensor(nil), r.Splits...), r.Values)}
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
		if _, err := CheckSplits(d.Tensors[i], rows); err != nil {
			return nil, err
		}
	}
	if Nesting(values) >= MaxNesting {
		return nil, TooDeep()
	}
	return NewRagged(d.Tensors[:n:n], values), nil
}

// Portable returns the tensor itself.
func (b Boxed) Portable() tensor.VariantData {
	return tensor.VariantData{Type: boxedName, Tensors: []*tensor.Tensor{b.T}}
}

func readBoxed(d tensor.VariantData) (any, error) {
	if len(d.Tensors) != 1 {
		return nil, status.InvalidArgumentf("A variant that holds a tensor comes with %d", len(d.Tensors))
	}
	if Nesting(d.Tensors[0]) >= MaxNesting {
		return nil, TooDeep()
	}
	return NewBoxed(d.Tensors[0]), nil
}

// Portable returns the map in TensorFlow's form: each key before its value.
func (m *TensorMap) Portable() tensor.VariantData {
	d := tensor.VariantData{Type: mapName}
	for i, key := range m.Keys {
		d.Tensors = append(d.Tensors, key, m.Values[i])
	}
	return d
}

func readMap(d tensor.VariantData) (any, error) {
	m := NewTensorMap()
	if len(d.Tensors)%2 != 0 {
		return nil, status.InvalidArgumentf("The description of a map of tensors has a key without a value")
	}
	for i := 0; i < len(d.Tensors); i += 2 {
		key, value := d.Tensors[i], d.Tensors[i+1]
		name, err := MapKey(key)
		if err != nil {
			return nil, err
		}
		if _, there := m.Rows[name]; there {
			return nil, status.InvalidArgumentf("The description of a map of tensors has a key twice")
		}
		if m.Depth = max(m.Depth, Nesting(value)); m.Depth > MaxNesting {
			return nil, TooDeep()
		}
		m.Put(name, key, value)
	}
	return m, nil
}
