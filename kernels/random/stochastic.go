package random

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// newStochasticCast returns the kernel of StochasticCastToInt, which rounds a number up with a probability equal to its fraction. Element i
// uses random number i. TensorFlow's kernel reuses a few random numbers for every vector register, so its results depend on the processor.
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
		ctx.Parallel((len(dst)+3)/4, element.BlockLen, func(lo, hi int) {
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

// roundBy rounds v away from zero if u is below its fraction.
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
