package kernels

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// variantMessage is implemented by elements of variant tensors that have a form as message
// (tensorflow.VariantTensorDataProto).
type variantMessage interface {
	// message is what TensorFlow calls the type of the element, what it stores of it in a format of the type's own,
	// and the tensors in it, which are borrowed.
	message() (typeName string, metadata []byte, tensors []*tensor.Tensor)
}

// variantReaders make elements of variant tensors of their messages, by TensorFlow's names for their types. They
// take over the tensors, also when they fail.
var variantReaders = map[string]func(metadata []byte, tensors []*tensor.Tensor) (tensor.Counted, error){
	tensorListName: tensorListFromMessage,
	optionalName:   optionalFromMessage,
}

const (
	tensorListName = "tensorflow::TensorList"
	optionalName   = "tensorflow::data::Optional"
)

// variantProto is the message of an element; of nothing it is empty.
func variantProto(v any) (*tensorpb.VariantTensorDataProto, error) {
	if v == nil {
		return &tensorpb.VariantTensorDataProto{}, nil
	}
	m, ok := v.(variantMessage)
	if !ok {
		return nil, status.Unimplementedf("A variant that holds a %T has no form as message", v)
	}
	p := &tensorpb.VariantTensorDataProto{}
	var tensors []*tensor.Tensor
	p.TypeName, p.Metadata, tensors = m.message()
	for _, t := range tensors {
		q, err := tensorProto(t)
		if err != nil {
			return nil, err
		}
		p.Tensors = append(p.Tensors, q)
	}
	return p, nil
}

// tensorProto is a tensor as message, also of variants.
func tensorProto(t *tensor.Tensor) (*tensorpb.TensorProto, error) {
	if t.DType() != tensor.Variant {
		return t.Proto()
	}
	p := &tensorpb.TensorProto{Dtype: t.DType().Proto(), TensorShape: t.Shape().Proto()}
	for _, v := range t.Variants() {
		q, err := variantProto(v)
		if err != nil {
			return nil, err
		}
		p.VariantVal = append(p.VariantVal, q)
	}
	return p, nil
}

// serializeVariants is the wire form of a TensorProto whose content are the elements' messages: the sizes of all, then
// all (core/framework/variant.cc, EncodeVariantList).
func serializeVariants(t *tensor.Tensor) ([]byte, error) {
	var sizes, messages []byte
	for _, v := range t.Variants() {
		p, err := variantProto(v)
		if err != nil {
			return nil, err
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			return nil, err
		}
		sizes = protowire.AppendVarint(sizes, uint64(len(b)))
		messages = append(messages, b...)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(&tensorpb.TensorProto{
		Dtype: t.DType().Proto(), TensorShape: t.Shape().Proto(), TensorContent: append(sizes, messages...),
	})
}

// tensorFromProto makes a tensor of a message, also of variants. depth is how many variants it lies in.
func tensorFromProto(pool *tensor.Pool, p *tensorpb.TensorProto, depth int) (*tensor.Tensor, error) {
	if tensor.FromProto(p.GetDtype()) != tensor.Variant {
		return tensor.FromTensorProto(p, pool)
	}
	if depth > maxNesting {
		return nil, tooDeep()
	}
	shape, _ := tensor.ShapeFromProto(p.GetTensorShape())
	n, err := shape.NumElements()
	if err != nil {
		return nil, err
	}
	messages := p.GetVariantVal()
	if len(p.GetTensorContent()) > 0 {
		if messages, err = variantList(p.GetTensorContent(), n); err != nil {
			return nil, err
		}
	}
	if n != int64(len(messages)) {
		return nil, status.InvalidArgumentf("A tensor of shape %v has %d variants in its message", shape, len(messages))
	}
	t, err := tensor.New(pool, tensor.Variant, shape)
	if err != nil {
		return nil, err
	}
	for i, m := range messages {
		v, err := variantFromProto(pool, m, depth)
		if err != nil {
			t.Release()
			return nil, err
		}
		if v != nil {
			t.Variants()[i] = v
		}
	}
	return t, nil
}

// variantList reads n messages that serializeVariants packed.
func variantList(b []byte, n int64) (list []*tensorpb.VariantTensorDataProto, err error) {
	malformed := status.InvalidArgumentf("tensor_content of %d bytes does not hold %d variants", len(b), n)
	if n > int64(len(b)) { // each takes a byte or more
		return nil, malformed
	}
	sizes := make([]uint64, n)
	for i := range sizes {
		v, size := protowire.ConsumeVarint(b)
		if size < 0 {
			return nil, malformed
		}
		sizes[i], b = v, b[size:]
	}
	for _, size := range sizes {
		p := &tensorpb.VariantTensorDataProto{}
		if size > uint64(len(b)) || proto.Unmarshal(b[:size], p) != nil {
			return nil, malformed
		}
		list, b = append(list, p), b[size:]
	}
	if len(b) > 0 {
		return nil, malformed
	}
	return list, nil
}

func variantFromProto(pool *tensor.Pool, p *tensorpb.VariantTensorDataProto, depth int) (tensor.Counted, error) {
	if p.GetTypeName() == "" {
		return nil, nil
	}
	read, ok := variantReaders[p.GetTypeName()]
	if !ok {
		return nil, status.Unimplementedf("Variants of type %q cannot be read from a message", p.GetTypeName())
	}
	var tensors []*tensor.Tensor
	for _, q := range p.GetTensors() {
		t, err := tensorFromProto(pool, q, depth+1)
		if err != nil {
			releaseTensors(tensors)
			return nil, err
		}
		tensors = append(tensors, t)
	}
	return read(p.GetMetadata(), tensors)
}

// message is TensorFlow's: which elements are missing, the type, the most elements and the shape of the elements, and
// the elements that are there (core/kernels/tensor_list.cc).
func (l *tensorList) message() (string, []byte, []*tensor.Tensor) {
	var there []*tensor.Tensor
	var missing []byte
	for i, t := range l.elems {
		if t == nil {
			missing = protowire.AppendVarint(missing, uint64(i))
		} else {
			there = append(there, t)
		}
	}
	m := append(protowire.AppendVarint(nil, uint64(len(l.elems)-len(there))), missing...)
	m = protowire.AppendVarint(m, uint64(l.dtype))
	m = protowire.AppendVarint(m, uint64(int64(l.max)))
	shape := l.shape.dims.Proto()
	shape.UnknownRank = !l.shape.known
	// A shape is a message of numbers: writing one does not fail.
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(shape)
	return tensorListName, append(m, b...), there
}

func tensorListFromMessage(m []byte, tensors []*tensor.Tensor) (tensor.Counted, error) {
	l, err := readTensorList(m, tensors)
	if err != nil {
		releaseTensors(tensors)
		return nil, err
	}
	return l, nil
}

func readTensorList(m []byte, tensors []*tensor.Tensor) (*tensorList, error) {
	malformed := status.InvalidArgumentf("The metadata of a list of tensors is malformed")
	ok := true
	next := func() uint64 {
		v, n := protowire.ConsumeVarint(m)
		if n < 0 {
			ok = false
			return 0
		}
		m = m[n:]
		return v
	}
	missing := map[uint64]bool{}
	gaps := next()
	for i := uint64(0); ok && i < gaps; i++ {
		missing[next()] = true
	}
	dtype, most := tensor.DType(next()), int64(next())
	var p shapepb.TensorShapeProto
	if !ok || uint64(len(missing)) != gaps || !dtype.Valid() || dtype.IsRef() || proto.Unmarshal(m, &p) != nil {
		return nil, malformed
	}
	dims, known := tensor.ShapeFromProto(&p)
	l, err := newTensorList(dtype, partialShape{dims, known}, len(missing)+len(tensors))
	if err != nil {
		return nil, err
	}
	l.max = int(most)
	rest := tensors
	for i := range l.elems {
		switch {
		case missing[uint64(i)]:
			continue
		case len(rest) == 0 || rest[0].DType() != dtype || !l.shape.admits(rest[0].Shape()):
			return nil, malformed
		}
		if err := l.admit(rest[0]); err != nil {
			return nil, err
		}
		l.elems[i], rest = rest[0], rest[1:]
	}
	return l, nil
}

// message is TensorFlow's: whether there are tensors, and the tensors (core/kernels/data/optional_ops_util.cc).
func (o *optional) message() (string, []byte, []*tensor.Tensor) {
	if !o.has {
		return optionalName, []byte{0}, nil
	}
	return optionalName, []byte{1}, o.list
}

func optionalFromMessage(m []byte, tensors []*tensor.Tensor) (tensor.Counted, error) {
	err := error(nil)
	if len(m) != 1 || m[0] > 1 || m[0] == 0 && len(tensors) > 0 {
		err = status.InvalidArgumentf("The metadata of an optional value is malformed")
	}
	for _, t := range tensors {
		if nesting(t) > maxNesting {
			err = tooDeep()
		}
	}
	if err != nil {
		releaseTensors(tensors)
		return nil, err
	}
	return newOptional(m[0] == 1, tensors), nil
}
