package random

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/philox"
	"github.com/troupe-run/troupe/kernels/internal/powers"
)

// gammaSource draws the numbers that a gamma sample needs: uniform and normal ones. It draws each kind in pairs from one generator, and
// returns the last of a pair first.
type gammaSource struct {
	gen          philox.Philox
	uniforms     [2]float64
	normals      [2]float64
	haveU, haveN int
}

func (s *gammaSource) uniform() float64 {
	if s.haveU == 0 {
		x := s.gen.Next()
		s.uniforms = [2]float64{philox.UnitDouble(x[0], x[1]), philox.UnitDouble(x[2], x[3])}
		s.haveU = 2
	}
	s.haveU--
	return s.uniforms[s.haveU]
}

func (s *gammaSource) normal() float64 {
	if s.haveN == 0 {
		x := s.gen.Next()
		s.normals[0], s.normals[1] = normalPairDouble(x[0], x[1], x[2], x[3])
		s.haveN = 2
	}
	s.haveN--
	return s.normals[s.haveN]
}

// sample draws from the gamma distribution of shape alpha and scale 1 by Marsaglia and Tsang's
// transformation with rejection ("A simple method for generating gamma variables", 2000).
func (s *gammaSource) sample(alpha float64) float64 {
	if alpha == 1 {
		return -math.Log1p(-s.uniform())
	}
	small := alpha < 1
	d := alpha - 1.0/3
	if small {
		d = alpha + 2.0/3
	}
	c := 1.0 / 3 / math.Sqrt(d)
	for {
		x := s.normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := s.uniform()
		if u < 1-0.0331*(x*x)*(x*x) || math.Log(u) < 0.5*x*x+d*(1-v+math.Log(v)) {
			result := d * v
			if small {
				result *= powers.Of(s.uniform(), 1/alpha)
			}
			return result
		}
	}
}

// randomGammaKernel is RandomGamma. It draws samples of a given shape for each alpha.
type randomGammaKernel[T element.Floating] struct {
	dtype tensor.DType
	gen   *philox.Generator
}

func (k *randomGammaKernel[T]) Compute(ctx *kernels.Context) error {
	shape, err := args.ShapeInput(ctx, 0)
	if err != nil {
		return err
	}
	if err := args.CheckType(ctx, 1, k.dtype); err != nil {
		return err
	}
	alpha := ctx.Input(1)
	out, err := ctx.Allocate(0, k.dtype, append(shape, alpha.Shape()...))
	if err != nil || out.Len() == 0 {
		return err
	}
	base := k.gen.Reserve(int64(out.Len()) * philox.ReservedPerOutput)
	alphas, dst := element.ViewOf[T](alpha), element.ViewOf[T](out)
	if err := checkAlphas(alphas); err != nil {
		return err
	}
	drawGammas(ctx, base, dst, alphas)
	return nil
}

// drawGammas fills dst, whose last dimensions are the shape of alphas.
func drawGammas[T element.Floating](ctx *kernels.Context, base philox.Philox, dst, alphas []T) {
	samples := len(dst) / len(alphas)
	ctx.Parallel(len(dst), element.BlockLen, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			// Each sample has its own position in the generator's sequence.
			s := gammaSource{gen: base}
			s.gen.Skip(uint64(i) * philox.ReservedPerOutput)
			dst[i%samples*len(alphas)+i/samples] = T(s.sample(float64(alphas[i/samples])))
		}
	})
}

// statelessGamma draws samples of the full shape at input 0, whose last dimensions are the shape of the alphas at input alphaAt.
func statelessGamma[T element.Floating](from source, alphaAt int) kernels.Func {
	return func(ctx *kernels.Context) error {
		shape, err := args.ShapeInput(ctx, 0)
		if err != nil {
			return err
		}
		dtype := element.DTypeOf[T]()
		if err := args.CheckType(ctx, alphaAt, dtype); err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err != nil {
			return err
		}
		gen, err := from(ctx, out.Len())
		if err != nil || out.Len() == 0 {
			return err
		}
		alpha := ctx.Input(alphaAt)
		if !endsWith(shape, alpha.Shape()) {
			return errNotBroadcast()
		}
		alphas := element.ViewOf[T](alpha)
		if err := checkAlphas(alphas); err != nil {
			return err
		}
		drawGammas(ctx, gen, element.ViewOf[T](out), alphas)
		return nil
	}
}

// checkAlphas rejects alphas for which sampling would not terminate. For other invalid alphas, the result is that of TensorFlow.
func checkAlphas[T element.Floating](alphas []T) error {
	for _, a := range alphas {
		if float64(a) <= -2.0/3 {
			return status.InvalidArgumentf("No sample would be found for alpha = %v, which must be positive", a)
		}
	}
	return nil
}

// endsWith reports whether the last dimensions of shape equal tail.
func endsWith(shape, tail tensor.Shape) bool {
	return len(shape) >= len(tail) && shape[len(shape)-len(tail):].Equal(tail)
}

func errNotBroadcast() error {
	return status.InvalidArgumentf("Shape passed in must end with broadcasted shape.")
}

// seededGammaOf and keyedGammaOf return the rows of StatelessRandomGammaV2 and V3 for one element type.
func seededGammaOf[T element.Floating]() []kernels.Def {
	return halves.With("dtype", kernels.Def{HostInputs: []string{"shape", "seed"}, Expensive: true, New: kernels.Always(statelessGamma[T](fromSeed, 2))}, element.DTypeOf[T]())
}

func keyedGammaOf[T element.Floating]() []kernels.Def {
	return halves.With("dtype", kernels.Def{HostInputs: []string{"shape", "alg"}, Expensive: true, New: kernels.Always(statelessGamma[T](fromKey, 4))}, element.DTypeOf[T]())
}

// gammaOf returns the rows of RandomGamma for one element type.
func gammaOf[T element.Floating]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.With("T", kernels.Def{HostInputs: []string{"shape"}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
		g, err := philox.NewGenerator(c)
		return &randomGammaKernel[T]{dtype, g}, err
	}}, dtype)
}
