package random

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// newStochasticCast makes the kernel of StochasticCastToInt, which rounds a number up as often as its fraction says. Element i takes
// random number i. TensorFlow's kernel gives each vector register the same few of them, so its numbers depend on the processor.
func newStochasticCast[T int8 | int16 | int32](c *kernels.Construction) (any, error) {
	from, err := c.Attrs().Type("Tin")
	if err != nil {
		return nil, err
	}
	read, ok := elementAt[from]
	if !ok {
		return nil, status.InvalidArgumentf("No number of type %v is cast", from)
	}
	bound := math.Ldexp(1, 8*element.DTypeOf[T]().Size()-1)
	return kernels.Func(func(ctx *kernels.Context) error {
		gen, err := fromKey(ctx, ctx.Input(0).Len())
		if err != nil {
			return err
		}
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, element.DTypeOf[T](), in.Shape())
		if err != nil {
			return err
		}
		dst := tensor.Of[T](out)
		ctx.Device.Parallel((len(dst)+3)/4, element.BlockLen, func(lo, hi int) {
			own := gen
			own.Skip(uint64(lo))
			for group := lo; group < hi; group++ {
				x := own.Next()
				for i := 4 * group; i < min(4*group+4, len(dst)); i++ {
					dst[i] = T(min(max(roundBy(read(in, i), float64(philox.UnitFloat(x[i%4]))), -bound), bound-1))
				}
			}
		})
		return nil
	}), nil
}

// roundBy rounds v up if u is below its fraction, away from zero.
func roundBy(v, u float64) float64 {
	switch {
	case math.IsNaN(v):
		return 0
	case v == math.Floor(v):
		return v
	case v < 0:
		return math.Floor(v + u)
	default:
		return math.Floor(v + 1 - u)
	}
}
