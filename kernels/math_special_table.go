package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	for op, f := range map[string]func(float64) float64{
		"BesselI0": besselI0, "BesselI0e": besselI0e, "BesselI1": besselI1, "BesselI1e": besselI1e,
		"BesselK0": besselK0, "BesselK0e": besselK0e, "BesselK1": besselK1, "BesselK1e": besselK1e,
		"BesselJ0": math.J0, "BesselJ1": besselJ1, "BesselY0": besselY0, "BesselY1": besselY1,
		"Dawsn": dawson, "FresnelSin": fresnelSin, "FresnelCos": fresnelCos, "Spence": spence, "Expint": expint,
	} {
		Register(unary(op, blockLen, perElement1(f))...)
	}
	costly := binaryOptions{grain: blockLen}
	Register(binary("Zeta", costly, perElement2(zeta))...)
	Register(binary("Polygamma", costly, floats2(eachPair(polygamma[float32]), eachPair(polygamma[float64])))...)
	Register(binary("Igamma", costly, perElement2(igamma))...)
	Register(binary("Igammac", costly, perElement2(igammac))...)
	Register(binary("IgammaGradA", costly, perElement2(igammaGradA))...)
	Register(binary("RandomGammaGrad", costly, perElement2(gammaSampleGrad))...)
	betaincRows[float32]()
	betaincRows[float64]()
}

// betaincRows makes the row of Betainc, whose inputs have one shape or are scalars.
func betaincRows[T floating]() {
	dtype := dtypeOf[T]()
	Register(Def{Op: "Betainc", Types: map[string][]tensor.DType{"T": {dtype}}, New: func(*Construction) (any, error) {
		return Func(func(ctx *Context) error {
			shape := tensor.Shape(nil)
			for i := range 3 {
				if err := checkType(ctx, i, dtype); err != nil {
					return err
				}
				s := ctx.Input(i).Shape()
				switch {
				case len(shape) == 0:
					shape = s
				case len(s) > 0 && !s.Equal(shape):
					names := [3]string{"a", "b", "x"}
					return status.InvalidArgumentf("Shapes of %s and %s are inconsistent: %v vs. %v", names[0], names[i], shape, s)
				}
			}
			out, err := ctx.Allocate(0, dtype, shape)
			if err != nil {
				return err
			}
			var in [3][]T
			var stride [3]int
			for i := range in {
				in[i] = viewOf[T](ctx.Input(i))
				stride[i] = min(1, ctx.Input(i).Rank())
			}
			dst := viewOf[T](out)
			ctx.Device.Parallel(len(dst), blockLen, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					dst[i] = T(betainc(float64(in[0][i*stride[0]]), float64(in[1][i*stride[1]]), float64(in[2][i*stride[2]])))
				}
			})
			return nil
		}), nil
	}})
}
