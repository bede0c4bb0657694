package debug

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// newNanCount returns the kernel of DebugNanCount, which writes the number of elements that are NaN.
func newNanCount(c *kernels.Construction, in numbers) (any, error) {
	p, err := newProbe(c)
	if err != nil {
		return nil, err
	}
	return p.kernel(func(ctx *kernels.Context, t *tensor.Tensor) (*tensor.Tensor, bool, error) {
		out, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{1})
		if err != nil {
			return nil, false, err
		}
		n := int64(0)
		if t != nil {
			in.read(t, func(x float64) {
				if x != x {
					n++
				}
			})
		}
		tensor.Of[int64](out)[0] = n
		return out, true, nil
	}), nil
}

// newNumericSummary returns the kernel of DebugNumericSummary. Its output holds whether the tensor has a value, the number of its elements,
// then the numbers of those that are NaN, -inf (or at most lower_bound), negative, zero, positive, and +inf (or at least upper_bound), then
// the least, the greatest, the mean and the variance of the finite ones, the type, the rank, and the shape.
func newNumericSummary(c *kernels.Construction, in numbers) (any, error) {
	p, err := newProbe(c)
	if err != nil {
		return nil, err
	}
	a := c.Attrs().Reader()
	lower, upper, mute := a.Float("lower_bound"), a.Float("upper_bound"), a.Bool("mute_if_healthy")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if math.IsInf(float64(lower), 0) { // +inf also means no bound
		lower = float32(math.Inf(-1))
	}
	if math.IsInf(float64(upper), 0) {
		upper = float32(math.Inf(1))
	}
	return p.kernel(func(ctx *kernels.Context, t *tensor.Tensor) (*tensor.Tensor, bool, error) {
		var shape tensor.Shape
		n := newNumericCount(float64(lower), float64(upper))
		if t != nil {
			shape = t.Shape()
			in.read(t, n.add)
			n.findMean()
			in.read(t, n.spread)
		} else if v := ctx.Inputs[0].Ref; v.KnownShape {
			shape = v.Shape
		}
		out, err := ctx.Allocate(0, tensor.Float64, tensor.Shape{int64(14 + len(shape))})
		if err != nil {
			return nil, false, err
		}
		to := append(tensor.Of[float64](out)[:0], 0, n.all, n.nan, n.below, n.negative, n.zero, n.positive, n.above, n.least, n.greatest, n.mean,
			n.squares/n.finite, float64(in.dtype), float64(len(shape)))
		if t != nil {
			to[0] = 1
		}
		for _, size := range shape {
			to = append(to, float64(size))
		}
		return out, !mute || n.nan+n.below+n.above > 0, nil
	}), nil
}

// numericCount counts numbers by kind.
type numericCount struct {
	lower, upper                                     float64
	all, nan, below, negative, zero, positive, above float64
	least, greatest, sum, finite, mean, squares      float64
}

func newNumericCount(lower, upper float64) *numericCount {
	return &numericCount{lower: lower, upper: upper, least: math.Inf(1), greatest: math.Inf(-1), mean: math.NaN()}
}

func (n *numericCount) add(x float64) {
	n.all++
	switch {
	case x != x:
		n.nan++
	case x <= n.lower:
		n.below++
	case x >= n.upper:
		n.above++
	case x < 0:
		n.negative++
	case x > 0:
		n.positive++
	default:
		n.zero++
	}
	if x-x == 0 {
		n.least, n.greatest = min(n.least, x), max(n.greatest, x)
		n.sum += x
		n.finite++
	}
}

// findMean computes the mean. It must be called after all numbers have been added.
func (n *numericCount) findMean() {
	if n.finite > 0 {
		n.mean = n.sum / n.finite
	}
}

// spread adds the squared deviation of a number, for the variance.
func (n *numericCount) spread(x float64) {
	if x-x == 0 {
		n.squares += (x - n.mean) * (x - n.mean)
	}
}
