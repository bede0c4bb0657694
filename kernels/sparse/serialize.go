package sparse

import (
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/variant"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// packInto stores a tensor in element i of a tensor of strings (as a TensorProto) or of variants (which get their own reference).
func packInto(ctx *kernels.Context, out *tensor.Tensor, i int, t *tensor.Tensor) error {
	if out.DType() == tensor.Variant {
		if variant.Nesting(t) >= variant.MaxNesting {
			return variant.TooDeep()
		}
		layout.SetVariant(out.Variants(), i, variant.NewBoxed(t))
		return nil
	}
	p, err := t.ProtoUntil(ctx.Ended)
	if err != nil {
		return err
	}
	if t.DType() == tensor.String && t.Len() > 0 {
		// As in TensorFlow, strings are in the content: first all their lengths, then their bytes.
		for _, v := range p.StringVal {
			p.TensorContent = protowire.AppendVarint(p.TensorContent, uint64(len(v)))
		}
		for _, v := range p.StringVal {
			p.TensorContent = append(p.TensorContent, v...)
		}
		p.StringVal = nil
	}
	b, err := proto.Marshal(p)
	out.Strings()[i] = string(b)
	return err
}

// unpackProto reads a tensor that is stored as a TensorProto. The caller owns it.
func unpackProto(ctx *kernels.Context, s string) (*tensor.Tensor, error) {
	var p tensorpb.TensorProto
	if err := tensor.Unmarshal([]byte(s), &p); err != nil {
		return nil, status.InvalidArgumentf("Could not parse serialized proto")
	}
	t, err := tensor.FromTensorProto(&p, ctx.Device.Pool())
	if status.CodeOf(err) == status.InvalidArgument {
		return nil, status.InvalidArgumentf("Could not construct tensor from proto")
	}
	return t, err
}

// newSerializeSparse returns the kernel that stores the parts of a sparse tensor as three strings or variants.
func newSerializeSparse(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("out_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if _, err := sparseInput(ctx, 0); err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, tensor.Shape{3})
		if err != nil {
			return err
		}
		for i := range 3 {
			if err := packInto(ctx, out, i, ctx.Input(i)); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// newSerializeManySparse returns the kernel that does so for each tensor of a batch.
func newSerializeManySparse(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("out_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		s, err := sparseBatch(ctx, 0)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, tensor.Shape{s.shape[0], 3})
		if err != nil {
			return err
		}
		shape, err := layout.VectorOf(ctx.Device.Pool(), s.shape[1:])
		if err != nil {
			return err
		}
		defer shape.Release()
		next := int64(0)
		put := func(row int64, lo, hi int) error {
			indices, values, err := s.part(ctx.Device.Pool(), lo, hi)
			if err != nil {
				return err
			}
			defer indices.Release()
			defer values.Release()
			for i, t := range []*tensor.Tensor{indices, values, shape} {
				if err := packInto(ctx, out, int(row)*3+i, t); err != nil {
					return err
				}
			}
			return nil
		}
		// Rows without values get empty tensors.
		empty := func(end int64) error {
			for ; next < end; next++ {
				if err := put(next, 0, 0); err != nil {
					return err
				}
			}
			return nil
		}
		err = s.groups(func(row int64, lo, hi int) error {
			if err := empty(row); err != nil {
				return err
			}
			next = row + 1
			return put(row, lo, hi)
		})
		if err != nil {
			return err
		}
		return empty(s.shape[0])
	}), nil
}

// newDeserializeSparse returns the kernel that reads sparse tensors, and stacks them if there are several.
func newDeserializeSparse(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return deserializeSparse(ctx, dtype) }), nil
}

// unpackTime is the time in nanoseconds to read a small sparse tensor.
const unpackTime = 4000

func deserializeSparse(ctx *kernels.Context, dtype tensor.DType) error {
	in := ctx.Input(0)
	if in.Rank() == 0 {
		return status.InvalidArgumentf("Serialized sparse should have non-zero rank %v", in.Shape())
	}
	last := in.Rank() - 1
	if in.Dim(last) != 3 {
		return status.InvalidArgumentf("Serialized sparse should have 3 as the last dimension %v", in.Shape())
	}
	lead := in.Shape()[:last]
	if in.Len() == 0 {
		return status.InvalidArgumentf("Serialized sparse should have at least 1 serialized tensor, but has a zero dimension %v", in.Shape())
	}
	read := unpackVariants
	if in.DType() == tensor.String {
		read = unpackStrings
	}
	list := make([]*tensor.Tensor, in.Len())
	defer variant.ReleaseSet(list)
	parts := make([]sparse, in.Len()/3)
	end := ctx.Lookout()
	for i := range parts {
		if err := end.After(unpackTime); err != nil {
			return err
		}
		three := list[3*i : 3*i+3]
		if err := read(ctx, i, dtype, three); err != nil {
			return err
		}
		parts[i] = sparse{three[0], three[1], tensor.Of[int64](three[2])}
		if _, err := parts[i].dense(); err != nil && len(lead) > 0 {
			return err
		}
		if i > 0 && len(parts[i].shape) != len(parts[0].shape) {
			return status.InvalidArgumentf("Inconsistent shape across SparseTensors: rank prior to SparseTensor[%d] was: %d but rank of SparseTensor[%d] is: %d",
				i, len(parts[0].shape), i, len(parts[i].shape))
		}
	}
	if len(lead) == 0 {
		for o, t := range list {
			ctx.SetOutput(o, t.Retain())
		}
		return nil
	}
	return stacked(ctx, dtype, lead, parts)
}

// unpackStrings reads sparse tensor i, stored as strings, into three.
func unpackStrings(ctx *kernels.Context, i int, dtype tensor.DType, three []*tensor.Tensor) (err error) {
	for k := range three {
		if three[k], err = unpackProto(ctx, ctx.Input(0).Strings()[3*i+k]); err != nil {
			return err
		}
	}
	if err := checkParts(i, dtype, three, 1); err != nil {
		return err
	}
	return checkIndexTypes(i, three)
}

// unpackVariants reads sparse tensor i, stored as variants, into three.
func unpackVariants(ctx *kernels.Context, i int, dtype tensor.DType, three []*tensor.Tensor) error {
	for k := range three {
		b, ok := ctx.Input(0).Variants()[3*i+k].(variant.Boxed)
		if !ok {
			return status.InvalidArgumentf("Could not get a tensor from serialized_sparse[%d, %d]", i, k)
		}
		three[k] = b.T.Retain()
	}
	if err := checkIndexTypes(i, three); err != nil {
		return err
	}
	return checkParts(i, dtype, three, 2)
}

func checkIndexTypes(i int, three []*tensor.Tensor) error {
	for _, k := range []int{2, 0} {
		if t := three[k]; t.DType() != tensor.Int64 {
			return status.InvalidArgumentf("Expected serialized_sparse[%d, %d] to be a %s of DT_INT64 but received dtype %v", i, k, []string{"matrix", "", "vector"}[k], t.DType())
		}
	}
	return nil
}

// checkParts checks that three tensors form a sparse tensor. TensorFlow's error gives the shape another number for strings than for
// variants.
func checkParts(i int, dtype tensor.DType, three []*tensor.Tensor, shapeNumber int) error {
	indices, values, shape := three[0], three[1], three[2]
	switch {
	case indices.Rank() != 2:
		return status.InvalidArgumentf("Expected serialized_sparse[%d, 0] to represent an index matrix but received shape %v", i, indices.Shape())
	case values.Rank() != 1:
		return status.InvalidArgumentf("Expected serialized_sparse[%d, 1] to represent a values vector but received shape %v", i, values.Shape())
	case dtype != values.DType():
		return status.InvalidArgumentf("Requested SparseTensor of type %v but SparseTensor[%d].values.dtype() == %v", dtype, i, values.DType())
	case indices.Dim(0) != values.Len():
		return status.InvalidArgumentf("Expected row counts of SparseTensor[%d].indices and SparseTensor[%d].values to match but they do not: %d vs. %d", i, i, indices.Dim(0), values.Len())
	case shape.Rank() != 1:
		return status.InvalidArgumentf("Expected serialized_sparse[%d, %d] to be a shape vector but its shape is %v", i, shapeNumber, shape.Shape())
	case indices.Dim(1) != shape.Len():
		return status.InvalidArgumentf("Expected column counts of SparseTensor[%d].indices to match size of SparseTensor[%d].shape but they do not: %d vs. %d", i, i, indices.Dim(1), shape.Len())
	}
	return nil
}
