package kernels

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// variantCodec turns elements of variant tensors into serialized tensorflow.VariantTensorDataProto and back, in memory of
// pool. It knows lists of tensors, which may hold lists.
type variantCodec struct{ pool *tensor.Pool }

const tensorListType = "tensorflow::TensorList"

func (c variantCodec) Encode(v any) ([]byte, error) {
	p, err := c.toProto(v)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(p)
}

func (c variantCodec) Decode(b []byte) (any, error) {
	p := &tensorpb.VariantTensorDataProto{}
	if err := proto.Unmarshal(b, p); err != nil {
		return nil, status.Errorf(status.DataLoss, "Unable to parse VariantTensorDataProto from buffer of size %d.", len(b))
	}
	return c.fromProto(p, 0)
}

func (c variantCodec) toProto(v any) (*tensorpb.VariantTensorDataProto, error) {
	list, ok := v.(*tensorList)
	if !ok {
		return nil, status.Unimplementedf("A variant that holds a %T cannot be saved", v)
	}
	p := &tensorpb.VariantTensorDataProto{TypeName: tensorListType}
	var missing []uint64
	for i, t := range list.elems {
		if t == nil {
			missing = append(missing, uint64(i))
			continue
		}
		m, err := c.tensorProto(t)
		if err != nil {
			return nil, err
		}
		p.Tensors = append(p.Tensors, m)
	}
	p.Metadata = protowire.AppendVarint(nil, uint64(len(missing)))
	for _, i := range missing {
		p.Metadata = protowire.AppendVarint(p.Metadata, i)
	}
	p.Metadata = protowire.AppendVarint(p.Metadata, uint64(list.dtype))
	p.Metadata = protowire.AppendVarint(p.Metadata, uint64(int64(list.max)))
	shape := list.shape.dims.Proto()
	shape.UnknownRank = !list.shape.known
	var err error
	p.Metadata, err = proto.MarshalOptions{}.MarshalAppend(p.Metadata, shape)
	return p, err
}

func (c variantCodec) tensorProto(t *tensor.Tensor) (*tensorpb.TensorProto, error) {
	if t.DType() != tensor.Variant {
		return t.Proto()
	}
	p := &tensorpb.TensorProto{Dtype: t.DType().Proto(), TensorShape: t.Shape().Proto()}
	for _, v := range t.Variants() {
		m, err := c.toProto(v)
		if err != nil {
			return nil, err
		}
		p.VariantVal = append(p.VariantVal, m)
	}
	return p, nil
}

func (c variantCodec) fromProto(p *tensorpb.VariantTensorDataProto, depth int) (any, error) {
	if p.TypeName != tensorListType {
		return nil, status.Internalf("Could not decode variant with type_name: %q.  Perhaps you forgot to register a decoder via REGISTER_UNARY_VARIANT_DECODE_FUNCTION?", p.TypeName)
	}
	if depth >= maxNesting {
		return nil, tooDeep()
	}
	bad := status.Internalf("Could not decode variant with type_name: %q: it is malformed", p.TypeName)
	rest := p.Metadata
	number := func() uint64 {
		v, n := protowire.ConsumeVarint(rest)
		if n <= 0 {
			rest = nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	n := number()
	if n > uint64(len(rest)) { // each takes a byte or more
		return nil, bad
	}
	list := &tensorList{elems: make([]*tensor.Tensor, len(p.Tensors)+int(n))}
	list.refs.Store(1)
	here := make([]bool, len(list.elems))
	for i := range here {
		here[i] = true
	}
	for range n {
		i := number()
		if i >= uint64(len(here)) || !here[i] {
			return nil, bad
		}
		here[i] = false
	}
	list.dtype, list.max = tensor.DType(number()), int(int64(number()))
	shape := &shapepb.TensorShapeProto{}
	if rest == nil || !list.dtype.Valid() || proto.Unmarshal(rest, shape) != nil {
		return nil, bad
	}
	list.shape.dims, list.shape.known = tensor.ShapeFromProto(shape)
	tensors := p.Tensors
	for i, ok := range here {
		if !ok {
			continue
		}
		t, err := c.fromTensorProto(tensors[0], depth)
		if err == nil && t.DType() != list.dtype {
			t.Release()
			err = bad
		} else if err == nil {
			list.elems[i] = t
			err = list.admit(t)
		}
		if err != nil {
			list.Release()
			return nil, err
		}
		tensors = tensors[1:]
	}
	return list, nil
}

func (c variantCodec) fromTensorProto(p *tensorpb.TensorProto, depth int) (*tensor.Tensor, error) {
	if tensor.FromProto(p.GetDtype()) != tensor.Variant {
		return tensor.FromTensorProto(p, c.pool)
	}
	shape, _ := tensor.ShapeFromProto(p.GetTensorShape())
	if n, err := shape.NumElements(); err != nil || n != int64(len(p.VariantVal)) {
		return nil, status.Internalf("A tensor of variants has %d elements and the shape %v", len(p.VariantVal), shape)
	}
	t, err := tensor.New(c.pool, tensor.Variant, shape)
	if err != nil {
		return nil, err
	}
	for i, m := range p.VariantVal {
		if t.Variants()[i], err = c.fromProto(m, depth+1); err != nil {
			t.Release()
			return nil, err
		}
	}
	return t, nil
}
