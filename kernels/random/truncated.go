package random

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// mostTries is the number of consecutive rejections after which sampling fails.
const mostTries = 1000

// numbers draws uniform and normal numbers, one group at a time.
type numbers[T float32 | float64] struct {
	group           int
	uniform, normal func(gen *philox.Philox, dst []T)
}

// drawn returns a function that draws a group of a distribution.
func drawn[T, U any](d *distribution[U], wide func(dst []T, src []U)) func(gen *philox.Philox, dst []T) {
	return func(gen *philox.Philox, dst []T) {
		x := gen.Next()
		var own [4]U
		d.fixed(own[:len(dst)], x[:])
		wide(dst, own[:])
	}
}

func same[T any](dst, src []T) { copy(dst, src) }

func fromHalf(dst []float32, src []element.Float16) {
	for i := range dst {
		dst[i] = src[i].Float()
	}
}

var (
	numbers32   = numbers[float32]{4, drawn(&uniform32, same[float32]), drawn(&normal32, same[float32])}
	numbers64   = numbers[float64]{2, drawn(&uniform64, same[float64]), drawn(&normal64, same[float64])}
	numbersHalf = numbers[float32]{4, drawn(&uniformHalf, fromHalf), drawn(normalHalf[element.Float16](), fromHalf)}
)

// truncation is a truncated normal distribution. Its bounds are in standard deviations from the mean.
type truncation[T float32 | float64] struct {
	mean, deviation, low, high T
}

func newTruncation[T float32 | float64](mean, deviation, low, high float64) (t truncation[T], err error) {
	if !(deviation > 0) || !(low < high) || math.IsInf(low, 0) && math.IsInf(high, 0) || math.IsNaN(mean) {
		return t, status.InvalidArgumentf("Invalid parameters: mean %v, standard deviation %v, from %v to %v", mean, deviation, low, high)
	}
	// Mirror the distribution if needed: a single finite bound must be the lower one, and an interval to one side of the mean must be above
	// it.
	if math.IsInf(low, -1) || high < mean {
		low, high, deviation = high, low, -deviation
	}
	t = truncation[T]{mean: T(mean), deviation: T(deviation)}
	t.low, t.high = (T(low)-t.mean)/t.deviation, (T(high)-t.mean)/t.deviation
	return t, nil
}

// fill draws numbers until put returns false. It picks the method that rejects the fewest for the bounds: normal numbers (if the bounds
// enclose the mean), uniform ones, or exponentially distributed ones (Robert, "Simulation of truncated normal variables", 1995).
func (t truncation[T]) fill(d *numbers[T], gen *philox.Philox, put func(v T) (more bool)) error {
	const wide = 1.3 // standard deviations
	root := T(math.Sqrt(float64(t.low*t.low + 4)))
	cutoff := 2 * T(math.Exp(float64(0.5+t.low*(t.low-root)/4))) / (t.low + root)
	switch {
	case t.low < -wide && t.high >= 0, t.high > wide && t.low <= 0:
		return t.fillNormally(d, gen, put)
	case t.high-t.low < cutoff:
		return t.fillUniformly(d, gen, put)
	default:
		return t.fillExponentially(d, gen, put)
	}
}

func (t truncation[T]) failed(method string) error {
	return status.Internalf("TruncatedNormal %s rejection sampler failed to accept a sample.", method)
}

func (t truncation[T]) fillNormally(d *numbers[T], gen *philox.Philox, put func(v T) (more bool)) error {
	var x [4]T
	for tries := 0; ; {
		d.normal(gen, x[:d.group])
		for _, v := range x[:d.group] {
			if v >= t.low && v <= t.high {
				if !put(v*t.deviation + t.mean) {
					return nil
				}
				tries = 0
			} else if tries++; tries > mostTries {
				return t.failed("randn")
			}
		}
	}
}

func (t truncation[T]) fillUniformly(d *numbers[T], gen *philox.Philox, put func(v T) (more bool)) error {
	top := T(0)
	if t.low >= 0 {
		top = t.low * t.low
	}
	var x, u [4]T
	for tries := 0; ; {
		d.uniform(gen, x[:d.group])
		d.uniform(gen, u[:d.group])
		for i, v := range x[:d.group] {
			v = v*(t.high-t.low) + t.low
			if u[i] <= T(math.Exp(float64((top-v*v)/2))) {
				if !put(v*t.deviation + t.mean) {
					return nil
				}
				tries = 0
			} else if tries++; tries >= mostTries {
				return t.failed("uniform")
			}
		}
	}
}

func (t truncation[T]) fillExponentially(d *numbers[T], gen *philox.Philox, put func(v T) (more bool)) error {
	alpha := (t.low + T(math.Sqrt(float64(t.low*t.low+4)))) / 2
	var x [4]T
	for tries := 0; ; {
		d.uniform(gen, x[:d.group])
		for i := 0; i < d.group; i += 2 {
			v := -T(math.Log(float64(x[i])))/alpha + t.low
			off := t.low - alpha
			if t.low < alpha {
				off = alpha - v
			}
			if x[i+1] <= T(math.Exp(float64(-off*off/2))) && v < t.high {
				if !put(v*t.deviation + t.mean) {
					return nil
				}
				tries = 0
			} else if tries++; tries >= mostTries {
				return t.failed("exponential distribution")
			}
		}
	}
}

// newTruncatedNormal returns the kernel of ParameterizedTruncatedNormal, whose parameters apply to the first dimension.
func newTruncatedNormal[T float32 | float64](d *numbers[T]) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		g, err := philox.NewGenerator(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			shape, err := shapeInput(ctx, 0)
			if err != nil {
				return err
			}
			if len(shape) == 0 {
				return status.InvalidArgumentf("Shape tensor must not be empty")
			}
			batches := int(shape[0])
			alike := true
			for i, name := range []string{"means", "stddevs", "minvals", "maxvals"} {
				t := ctx.Input(1 + i)
				if t.Rank() > 1 {
					return status.InvalidArgumentf("Input %s should be a scalar or vector, got shape: %v", name, t.Shape())
				}
				alike = alike && t.Len() == 1 && (i < 2 || t.Rank() == 0)
			}
			out, err := ctx.Allocate(0, ctx.Input(1).DType(), shape)
			if err != nil || out.Len() == 0 {
				return err
			}
			each := out.Len() / batches
			if alike {
				each = 100
				batches = (out.Len() + each - 1) / each
			} else {
				for i, name := range []string{"means", "stddevs", "minvals", "maxvals"} {
					if t := ctx.Input(1 + i); t.Len() != 1 && t.Len() != batches {
						return status.InvalidArgumentf("Input %s should have length 1 or shape[0], got shape: %v", name, t.Shape())
					}
				}
			}
			p := parameters{tensors: []*tensor.Tensor{ctx.Input(1), ctx.Input(2), ctx.Input(3), ctx.Input(4)}, members: 1, samples: each}
			for _, t := range p.tensors {
				p.places = append(p.places, func(batch int) int { return min(batch, t.Len()-1) })
			}
			gen := g.Reserve(int64(batches) * 2 * mostTries * int64(each+3) / 4)
			return drawTruncated(ctx, d, &p, out, each, func(first int) philox.Philox {
				own := gen
				own.Skip(uint64(first/each) * 2 * mostTries * uint64(each+3) / 4)
				return own
			})
		}), err
	}
}

// statelessTruncatedNormal is StatelessParameterizedTruncatedNormal, whose parameters apply to the last dimensions.
func statelessTruncatedNormal[T float32 | float64](d *numbers[T]) kernels.Func {
	return func(ctx *kernels.Context) error {
		seed, err := seedInput(ctx, 1)
		if err != nil {
			return err
		}
		shape, err := shapeInput(ctx, 0)
		if err != nil {
			return err
		}
		means, deviations, lows, highs := ctx.Input(2), ctx.Input(3), ctx.Input(4), ctx.Input(5)
		p, err := newParameters(shape, func() error {
			return status.InvalidArgumentf("means, stddevs, minvals, maxvals must have compatible batch dimensions: %v vs. %v vs. %v vs. %v",
				means.Shape(), deviations.Shape(), lows.Shape(), highs.Shape())
		}, means, deviations, lows, highs)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, means.DType(), shape)
		if err != nil || out.Len() == 0 {
			return err
		}
		return drawTruncated(ctx, d, &p, out, element.BlockLen, func(first int) philox.Philox {
			own := seed
			own.Skip((uint64(first)*2*mostTries + uint64(d.group) - 1) / uint64(d.group))
			return own
		})
	}
}

// drawTruncated fills out in blocks of each elements. Each block has its own position in the generator's sequence, so the result does not
// depend on how the work is divided.
func drawTruncated[T float32 | float64](ctx *kernels.Context, d *numbers[T], p *parameters, out *tensor.Tensor, each int, place func(first int) philox.Philox) error {
	set, n := countSetters[out.DType()](out), out.Len()
	blocks := (n + each - 1) / each
	errs := make([]error, blocks)
	ctx.Parallel(blocks, 1, func(lo, hi int) {
		for block := lo; block < hi; block++ {
			gen, i := place(block*each), block*each
			end := min(i+each, n)
			for i < end && errs[block] == nil {
				member := i / p.samples
				t, err := newTruncation[T](p.number(0, member), p.number(1, member), p.number(2, member), p.number(3, member))
				if err == nil {
					last := min(end, (member+1)*p.samples)
					err = t.fill(d, &gen, func(v T) bool {
						at := i
						if p.members > 1 {
							at = i%p.samples*p.members + member
						}
						set(at, float64(v))
						i++
						return i < last
					})
				}
				errs[block] = err
			}
		}
	})
	return args.FirstError(errs...)
}
