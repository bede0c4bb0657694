package variant

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// Codec gives checkpoints elements of variant tensors in the form in which they travel between processes.
type Codec struct{ Pool *tensor.Pool }

// Encode writes an element.
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

// Decode reads an element, of which the caller gets a reference.
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
