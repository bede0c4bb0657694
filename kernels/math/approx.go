package math

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// approximatelyEqual returns the rows of ApproximateEqual, which reports whether elements differ by less than the attribute tolerance.
func approximatelyEqual() []kernels.Def {
	return []kernels.Def{
		differBy(realDifference[float32]), differBy(realDifference[float64]),
		differBy(func(a, b element.Float16) float64 { return realDifference(a.Float(), b.Float()) }),
		differBy(func(a, b element.BFloat16) float64 { return realDifference(a.Float(), b.Float()) }),
		differBy(realDifference[int8]), differBy(realDifference[int16]), differBy(realDifference[int32]), differBy(realDifference[int64]),
		differBy(realDifference[uint8]), differBy(realDifference[uint16]), differBy(realDifference[uint32]), differBy(realDifference[uint64]),
		differBy(func(a, b complex64) float64 { return cmplx.Abs(complex128(a - b)) }),
		differBy(func(a, b complex128) float64 { return cmplx.Abs(a - b) }),
	}
}

// differBy returns the row for one element type.
func differBy[T any](difference func(a, b T) float64) kernels.Def {
	dtype := element.DTypeOf[T]()
	return kernels.Def{Types: dtypes.Only("T", dtype), New: func(c *kernels.Construction) (any, error) {
		tolerance, err := c.Attrs().Float("tolerance")
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			a, b := ctx.Input(0), ctx.Input(1)
			if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype)); err != nil {
				return err
			}
			if !a.Shape().Equal(b.Shape()) {
				return status.InvalidArgumentf("x and y must be of the same shape. x shape: %v. y shape: %v", a.Shape(), b.Shape())
			}
			out, err := ctx.Allocate(0, tensor.Bool, a.Shape())
			if err != nil {
				return err
			}
			dst, x, y := tensor.Of[bool](out), element.ViewOf[T](a), element.ViewOf[T](b)
			for i := range dst {
				dst[i] = difference(x[i], y[i]) < float64(tolerance)
			}
			return nil
		}), nil
	}}
}

func realDifference[T element.Integer | element.Floating](a, b T) float64 {
	return math.Abs(float64(a) - float64(b))
}
