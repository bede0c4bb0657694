package random

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// invertBinomial draws the number of successes in count trials, for a small mean. The gaps between successes have a geometric distribution.
func invertBinomial(s *gammaSource, count, prob float64) float64 {
	for sum, n := 0.0, 0.0; ; n++ {
		sum += math.Ceil(math.Log(s.uniform()) / math.Log1p(-prob))
		if !(sum <= count) {
			return n
		}
	}
}

// stirlingTails is the error of Stirling's approximation of log(k!) for k from 0 to 9.
var stirlingTails = [...]float64{
	0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
	0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
}

func stirlingTail(k float64) float64 {
	if k >= 0 && k <= 9 {
		return stirlingTails[int(k)]
	}
	square := (k + 1) * (k + 1)
	return (1.0/12 - (1.0/360-1.0/1260/square)/square) / (k + 1)
}

// rejectBinomial draws the number of successes in count trials, for a mean of at least 10 and a prob of at most 0.5, by transformed
// rejection (Hörmann, "The generation of binomial random variates", 1993, algorithm BTRS).
func rejectBinomial(s *gammaSource, count, prob float64) float64 {
	deviation := math.Sqrt(count * prob * (1 - prob))
	b := 1.15 + 2.53*deviation
	a := -0.0873 + 0.0248*b + 0.01*prob
	c := count*prob + 0.5
	box := 0.92 - 4.2/b
	odds := prob / (1 - prob)
	alpha := (2.83 + 5.1/b) * deviation
	mode := math.Floor((count + 1) * prob)
	for {
		u := s.uniform()
		v := s.uniform()
		u -= 0.5
		shifted := 0.5 - math.Abs(u)
		k := math.Floor((2*a/shifted+b)*u + c)
		if shifted >= 0.07 && v <= box {
			return k
		}
		if k < 0 || k > count {
			continue
		}
		v = math.Log(v * alpha / (a/(shifted*shifted) + b))
		limit := (mode+0.5)*math.Log((mode+1)/(odds*(count-mode+1))) +
			(count+1)*math.Log((count-mode+1)/(count-k+1)) +
			(k+0.5)*math.Log(odds*(count-k+1)/(k+1)) +
			stirlingTail(mode) + stirlingTail(count-mode) - stirlingTail(k) - stirlingTail(count-k)
		if v <= limit {
			return k
		}
	}
}

// trials holds the parameters of a binomial distribution. round rounds to their type.
type trials struct {
	count, prob float64
	round       func(float64) float64
}

// The number of groups of random numbers reserved for each sample, by method.
const (
	groupsOfInversion = 42
	groupsOfRejection = 256
)

// sample draws the sample with the given number.
func (t trials) sample(gen philox.Philox, number int) float64 {
	switch {
	case t.count <= 0 || t.prob <= 0:
		return 0
	case t.prob >= 1:
		return t.count
	case t.prob > 0.5:
		t.prob = t.round(1 - t.prob)
		return t.count - t.likely(gen, number)
	case t.prob <= 0.5 && !math.IsNaN(t.count):
		return t.likely(gen, number)
	}
	return math.NaN()
}

// likely draws a sample for a probability of at most 0.5.
func (t trials) likely(gen philox.Philox, number int) float64 {
	if t.round(t.count*t.prob) >= 10 {
		gen.Skip(groupsOfRejection * uint64(number))
		return rejectBinomial(&gammaSource{gen: gen}, t.count, t.prob)
	}
	gen.Skip(groupsOfInversion * uint64(number))
	return invertBinomial(&gammaSource{gen: gen}, t.count, t.prob)
}

// binomial returns the constructor of an op with the shape at input shapeAt, and the counts and probabilities at inputs countsAt and
// countsAt+1.
func binomial(shapeAt, countsAt int, from source) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		dtype, err := c.Attrs().Type("dtype")
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			shape, err := shapeInput(ctx, shapeAt)
			if err != nil {
				return err
			}
			counts, probs := ctx.Input(countsAt), ctx.Input(countsAt+1)
			p, err := newParameters(shape, func() error {
				return status.InvalidArgumentf("counts and probs must have compatible batch dimensions: %v vs. %v", counts.Shape(), probs.Shape())
			}, counts, probs)
			if err != nil {
				return err
			}
			out, err := ctx.Allocate(0, dtype, shape)
			if err != nil {
				return err
			}
			gen, err := from(ctx, p.members*2*100*(p.samples+3)/4)
			if err != nil || out.Len() == 0 {
				return err
			}
			round := rounding[counts.DType()]
			set := countSetters[dtype](out)
			ctx.Parallel(out.Len(), element.BlockLen, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					member := i / p.samples
					t := trials{p.number(0, member), p.number(1, member), round}
					set(i%p.samples*p.members+member, t.sample(gen, i))
				}
			})
			return nil
		}), nil
	}
}

// rounding holds, for each type of parameters, a function that rounds to it.
var rounding = map[tensor.DType]func(float64) float64{
	tensor.Float16: func(x float64) float64 { return float64(element.ToFloat16(float32(x)).Float()) },
	tensor.Float32: func(x float64) float64 { return float64(float32(x)) },
	tensor.Float64: func(x float64) float64 { return x },
}
