package math

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// approximatelyEqual makes the kernel of ApproximateEqual: whether elements differ by less than
// the attribute tolerance.
func approximatelyEqual[T any](table *kernels.Table, difference func(a, b T) float64) {
	dtype := element.DTypeOf[T]()
	table.Add(kernels.Def{Op: "ApproximateEqual", Types: map[string][]tensor.DType{"T": {dtype}}, New: func(c *kernels.Construction) (any, error) {
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
	}})
}

func realDifference[T element.Integer | element.Floating](a, b T) float64 {
	return math.Abs(float64(a) - float64(b))
}
