package kernels

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

// l2LossKernel is half the sum of the squares.
type l2LossKernel[T floating] struct {
	norm  reducer[T]
	dtype tensor.DType
}

func (k *l2LossKernel[T]) Compute(ctx *Context) error {
	in := ctx.Input(0)
	if err := checkType(ctx, 0, k.dtype); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, nil)
	if err != nil {
		return err
	}
	dst := viewOf[T](out)
	dst[0] = 0
	if in.Len() == 0 {
		return nil
	}
	return k.norm.reduce(ctx.Device, dst, viewOf[T](in), []int{in.Len()}, true)
}

func l2Loss[T floating](sum reducer[T], square func(dst, a []T)) {
	dtype := dtypeOf[T]()
	half := norms(sum, square, func(dst, a []T) { dst[0] = a[0] / 2 })
	withHalves("L2Loss", "T", dtype, func(*Construction) (any, error) { return &l2LossKernel[T]{half, dtype}, nil })
}

func init() {
	l2Loss(sumFloat, simd.Square)
	l2Loss(sums[float64](), square[float64])
}
