package kernels

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// approximatelyEqual makes the kernel of ApproximateEqual: whether elements differ by less than
// the attribute tolerance.
func approximatelyEqual[T any](difference func(a, b T) float64) {
	dtype := dtypeOf[T]()
	Register(Def{Op: "ApproximateEqual", Types: map[string][]tensor.DType{"T": {dtype}}, New: func(c *Construction) (any, error) {
		tolerance, err := c.Attrs().Float("tolerance")
		if err != nil {
			return nil, err
		}
		return Func(func(ctx *Context) error {
			a, b := ctx.Input(0), ctx.Input(1)
			if err := firstError(checkType(ctx, 0, dtype), checkType(ctx, 1, dtype)); err != nil {
				return err
			}
			if !a.Shape().Equal(b.Shape()) {
				return status.InvalidArgumentf("x and y must be of the same shape. x shape: %v. y shape: %v", a.Shape(), b.Shape())
			}
			out, err := ctx.Allocate(0, tensor.Bool, a.Shape())
			if err != nil {
				return err
			}
			dst, x, y := tensor.Of[bool](out), viewOf[T](a), viewOf[T](b)
			for i := range dst {
				dst[i] = difference(x[i], y[i]) < float64(tolerance)
			}
			return nil
		}), nil
	}})
}

func realDifference[T integer | floating](a, b T) float64 { return math.Abs(float64(a) - float64(b)) }

func init() {
	approximatelyEqual(realDifference[float32])
	approximatelyEqual(realDifference[float64])
	approximatelyEqual(func(a, b float16) float64 { return realDifference(a.float(), b.float()) })
	approximatelyEqual(func(a, b bfloat16) float64 { return realDifference(a.float(), b.float()) })
	approximatelyEqual(realDifference[int8])
	approximatelyEqual(realDifference[int16])
	approximatelyEqual(realDifference[int32])
	approximatelyEqual(realDifference[int64])
	approximatelyEqual(realDifference[uint8])
	approximatelyEqual(realDifference[uint16])
	approximatelyEqual(realDifference[uint32])
	approximatelyEqual(realDifference[uint64])
	approximatelyEqual(func(a, b complex64) float64 { return cmplx.Abs(complex128(a - b)) })
	approximatelyEqual(func(a, b complex128) float64 { return cmplx.Abs(a - b) })
}
