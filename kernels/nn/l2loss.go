package nn

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
)

// l2LossKernel is L2Loss: half the sum of squares.
type l2LossKernel[T element.Floating] struct {
	norm  reduce.Reducer[T]
	dtype tensor.DType
}

func (k *l2LossKernel[T]) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, nil)
	if err != nil {
		return err
	}
	dst := element.ViewOf[T](out)
	dst[0] = 0
	if in.Len() == 0 {
		return nil
	}
	return k.norm.Reduce(ctx, dst, element.ViewOf[T](in), []int{in.Len()}, true)
}

// l2Loss returns the rows of L2Loss for one element type.
func l2Loss[T element.Floating](sum reduce.Reducer[T], square func(dst, a []T)) []kernels.Def {
	dtype := element.DTypeOf[T]()
	half := reduce.Norms(sum, square, func(dst, a []T) { dst[0] = a[0] / 2 })
	return halves.Rows("T", dtype, func(*kernels.Construction) (any, error) { return &l2LossKernel[T]{half, dtype}, nil })
}
