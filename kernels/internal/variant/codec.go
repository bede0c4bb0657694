package variant

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// Codec encodes the elements of variant tensors for checkpoints, in the form that processes exchange.
type Codec struct{ Pool *tensor.Pool }

// Encode encodes an element.
func (c Codec) Encode(v any) ([]byte, error) {
	t, err := tensor.New(c.Pool, tensor.Variant, nil)
	if err != nil {
		return nil, err
	}
	defer t.Release()
	t.Variants()[0] = v
	tensor.RetainVariants(t.Variants())
	p, err := t.Proto()
	if err != nil {
		return nil, err
	}
	return proto.Marshal(p.VariantVal[0])
}

// Decode decodes an element and returns it with a reference for the caller.
func (c Codec) Decode(b []byte) (any, error) {
	p := &tensorpb.VariantTensorDataProto{}
	if err := tensor.Unmarshal(b, p); err != nil {
		return nil, status.Errorf(status.DataLoss, "Unable to parse VariantTensorDataProto from buffer of size %d.", len(b))
	}
	t, err := tensor.FromTensorProto(&tensorpb.TensorProto{Dtype: tensor.Variant.Proto(), TensorShape: &shapepb.TensorShapeProto{}, VariantVal: []*tensorpb.VariantTensorDataProto{p}}, c.Pool)
	if err != nil {
		return nil, err
	}
	defer t.Release()
	tensor.RetainVariants(t.Variants())
	return t.Variants()[0], nil
}
