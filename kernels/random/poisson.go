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

// poissonRate is a rate, with the values that all its samples share.
type poissonRate struct{ rate, log, a, b, inv float64 }

func newPoissonRate(rate float64) poissonRate {
	b := 0.931 + 2.53*math.Sqrt(rate)
	return poissonRate{rate, math.Log(rate), -0.059 + 0.02483*b, b, 1.1239 + 1.1328/(b-3.4)}
}

// sample draws a count that does not exceed most. For small rates it multiplies uniform numbers (Knuth). For large ones it uses transformed
// rejection (Hörmann, "The transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS).
func (p *poissonRate) sample(s *gammaSource, most float64) float64 {
	if p.rate < 10 {
		limit, prod := math.Exp(-p.rate), 1.0
		for x := 0.0; ; x++ {
			if prod *= s.uniform(); prod <= limit && x <= most {
				return x
			}
		}
	}
	for {
		u := s.uniform() - 0.5
		v := s.uniform()
		shifted := 0.5 - math.Abs(u)
		k := math.Floor((2*p.a/shifted+p.b)*u + p.rate + 0.43)
		switch {
		case k > most:
			continue
		case shifted >= 0.07 && v <= 0.9277-3.6224/(p.b-2):
			return k
		case k < 0 || shifted < 0.013 && v > shifted:
			continue
		}
		lgamma, _ := math.Lgamma(k + 1)
		if math.Log(v*p.inv/(p.a/(shifted*shifted)+p.b)) <= -p.rate+k*p.log-lgamma {
			return k
		}
	}
}

// poissonMost is the greatest finite number of each type of counts.
var poissonMost = map[tensor.DType]float64{
	tensor.Float16: 65504, tensor.Float32: math.MaxFloat32, tensor.Float64: math.MaxFloat64,
	tensor.Int32: math.MaxInt32, tensor.Int64: math.MaxInt64,
}

// newRandomPoisson returns the kernel that draws counts of a given shape for each rate.
func newRandomPoisson(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	g, err := philox.NewGenerator(c)
	if err != nil {
		return nil, err
	}
	most := poissonMost[dtype]
	return kernels.Func(func(ctx *kernels.Context) error {
		shape, err := args.ShapeInput(ctx, 0)
		if err != nil {
			return err
		}
		given, err := poissonRates(ctx, ctx.Input(1), most)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, append(shape, ctx.Input(1).Shape()...))
		if err != nil || out.Len() == 0 {
			return err
		}
		base := g.Reserve(int64(out.Len()) * philox.ReservedPerOutput)
		drawCounts(ctx, base, out, given)
		return nil
	}), nil
}

// drawCounts fills out, whose last dimensions are the shape of the rates.
func drawCounts(ctx *kernels.Context, base philox.Philox, out *tensor.Tensor, rates []poissonRate) {
	samples, most := out.Len()/len(rates), poissonMost[out.DType()]
	set := countSetters[out.DType()](out)
	ctx.Parallel(out.Len(), element.BlockLen, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			// Each sample has its own position in the generator's sequence.
			s := gammaSource{gen: base}
			s.gen.Skip(uint64(i) * philox.ReservedPerOutput)
			rate := &rates[i/samples]
			x := math.Inf(1)
			if !math.IsInf(rate.rate, 1) {
				x = rate.sample(&s, most)
			}
			set(i%samples*len(rates)+i/samples, x)
		}
	})
}

// newStatelessPoisson returns the kernel that draws counts of the full shape at input 0 from a seed.
func newStatelessPoisson(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		shape, err := args.ShapeInput(ctx, 0)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err != nil {
			return err
		}
		gen, err := fromSeed(ctx, out.Len())
		if err != nil || out.Len() == 0 {
			return err
		}
		if !endsWith(shape, ctx.Input(2).Shape()) {
			return errNotBroadcast()
		}
		rates, err := poissonRates(ctx, ctx.Input(2), poissonMost[dtype])
		if err != nil {
			return err
		}
		drawCounts(ctx, gen, out, rates)
		return nil
	}), nil
}

// elementAt reads element i of a parameter, by type.
var elementAt = map[tensor.DType]func(t *tensor.Tensor, i int) float64{
	tensor.Float16:  func(t *tensor.Tensor, i int) float64 { return float64(element.ViewOf[element.Float16](t)[i].Float()) },
	tensor.BFloat16: func(t *tensor.Tensor, i int) float64 { return float64(element.ViewOf[element.BFloat16](t)[i].Float()) },
	tensor.Float32:  numberAt[float32], tensor.Float64: numberAt[float64], tensor.Int32: numberAt[int32], tensor.Int64: numberAt[int64],
}

func numberAt[T int32 | int64 | float32 | float64](t *tensor.Tensor, i int) float64 {
	return float64(tensor.Of[T](t)[i])
}

// poissonRates reads the rates. It rejects those for which sampling would not terminate.
func poissonRates(ctx *kernels.Context, t *tensor.Tensor, most float64) ([]poissonRate, error) {
	at, ok := elementAt[t.DType()]
	if !ok {
		return nil, status.InvalidArgumentf("Rates cannot be of type %v", t.DType())
	}
	rates := make([]poissonRate, t.Len())
	end := ctx.Lookout()
	for i := range rates {
		if err := end.After(64); err != nil {
			return nil, err
		}
		rate := at(t, i)
		if math.IsNaN(rate) || rate > most && !math.IsInf(rate, 1) {
			return nil, status.InvalidArgumentf("No count of rate %v fits the output, whose greatest number is %v", rate, most)
		}
		rates[i] = newPoissonRate(rate)
	}
	return rates, nil
}

// countSetters store counts in a tensor, by type. In integers, an infinite count is 0.
var countSetters = map[tensor.DType]func(t *tensor.Tensor) func(i int, x float64){
	tensor.Float16: func(t *tensor.Tensor) func(i int, x float64) {
		v := element.ViewOf[element.Float16](t)
		return func(i int, x float64) { v[i] = element.ToFloat16(float32(x)) }
	},
	tensor.Float32: setCount[float32], tensor.Float64: setCount[float64],
	tensor.Int32: setWholeCount[int32], tensor.Int64: setWholeCount[int64],
}

func setCount[T float32 | float64](t *tensor.Tensor) func(i int, x float64) {
	v := tensor.Of[T](t)
	return func(i int, x float64) { v[i] = T(x) }
}

func setWholeCount[T int32 | int64](t *tensor.Tensor) func(i int, x float64) {
	v := tensor.Of[T](t)
	return func(i int, x float64) { v[i] = T(finiteOr0(x)) }
}

func finiteOr0(x float64) float64 {
	if math.IsInf(x, 0) {
		return 0
	}
	return x
}
