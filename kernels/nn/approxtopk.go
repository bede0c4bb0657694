package nn

import (
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// newApproxTopK returns the kernel of ApproxTopK, which is exact on CPUs. TensorFlow's own kernel only finds the greatest elements of the
// last dimension, and returns k of them whatever aggregate_to_topk is. TensorFlow leaves everything else to XLA; it works here as it does
// with XLA.
func newApproxTopK(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	k, dimension, greatest := a.Int("k"), a.Int("reduction_dimension"), a.Bool("is_max_k")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if dimension == -1 && greatest {
		return &topKKernel[float32]{dtype: tensor.Float32, index: tensor.Int32, rows: rankFloats.rows32, k: k}, nil
	}
	if k < 0 {
		return nil, status.InvalidArgumentf("Need k >= 0, got %d", k)
	}
	rows := rankLeast.rows32
	if greatest {
		rows = rankFloats.rows32
	}
	return &approxTopKKernel{infer: shape.Node{Op: c.Node.Op, Attrs: c.Attrs(), Out: []tensor.DType{tensor.Float32, tensor.Int32}}, dimension: dimension, rows: rows}, nil
}

// approxTopKKernel is ApproxTopK along any dimension, for the greatest or the least elements. The op's shape function determines how many
// it returns, and checks the attributes.
type approxTopKKernel struct {
	infer     shape.Node
	dimension int64
	rows      topKRows[float32]
}

func (k *approxTopKKernel) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, tensor.Float32); err != nil {
		return err
	}
	if in.Rank() == 0 {
		return status.InvalidArgumentf("input must be >= 1-D, got shape %v", in.Shape())
	}
	node := k.infer
	node.In = []shape.Shape{shape.Of(in.Shape()...)}
	inferred, err := shape.Infer(&node)
	if err != nil {
		return err
	}
	dims, _ := inferred.Out[0].Dims()
	axis := int(k.dimension)
	if axis < 0 {
		axis += in.Rank()
	}
	values, err := ctx.Allocate(0, tensor.Float32, dims)
	if err != nil {
		return err
	}
	indices, err := ctx.Allocate(1, tensor.Int32, dims)
	if err != nil || values.Len() == 0 {
		return err
	}
	count, columns := int(dims[axis]), in.Dim(axis)
	outer, inner := in.Shape()[:axis].Elements(), in.Shape()[axis+1:].Elements()
	src, dst := element.ViewOf[float32](in), element.ViewOf[float32](values)
	if inner == 1 {
		return k.rows(ctx, dst, indices, src, count, columns)
	}
	// Move the dimension to the end, and move the results back.
	var moved [3]*tensor.Tensor
	defer func() {
		for _, t := range moved {
			if t != nil {
				t.Release()
			}
		}
	}()
	rows := int64(outer * inner)
	for i, dtype := range []tensor.DType{tensor.Float32, tensor.Float32, tensor.Int32} {
		width := int64(count)
		if i == 0 {
			width = int64(columns)
		}
		if moved[i], err = tensor.New(ctx.Device.Pool(), dtype, tensor.Shape{rows, width}); err != nil {
			return err
		}
	}
	turn := transposers[4]
	turn(ctx, moved[0], in, outer, columns, inner)
	if err := k.rows(ctx, element.ViewOf[float32](moved[1]), moved[2], element.ViewOf[float32](moved[0]), count, columns); err != nil {
		return err
	}
	turn(ctx, values, moved[1], outer, inner, count)
	turn(ctx, indices, moved[2], outer, inner, count)
	return nil
}
