package nn

import (
	"math"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

func relu[T element.Ordered](dst, a []T) {
	for i, v := range a {
		dst[i] = max(v, 0)
	}
}

func relu6[T element.Ordered](dst, a []T) {
	for i, v := range a {
		dst[i] = min(max(v, 0), 6)
	}
}

func elu64(v float64) float64 {
	if v < 0 {
		return math.Expm1(v)
	}
	return v
}

// The constants of SELU, from "Self-Normalizing Neural Networks" (Klambauer et al., 2017).
const (
	seluScale      = 1.0507009873554804934193349852946
	seluScaleAlpha = 1.7580993408473768599402175208123
)

func selu64(v float64) float64 {
	if v < 0 {
		return seluScaleAlpha * math.Expm1(v)
	}
	return seluScale * v
}

// softplus64 is log(1+exp(v)) without overflow.
func softplus64(v float64) float64 {
	if v > 0 {
		return v + math.Log1p(math.Exp(-v))
	}
	return math.Log1p(math.Exp(v))
}

func softsign[T element.Floating](dst, a []T) {
	for i, v := range a {
		dst[i] = v / (1 + T(math.Abs(float64(v))))
	}
}

// The gradients take the gradient of the result first, then the op's input (features) or, for elu and selu, its output.

// Where a unit is inactive, the gradient is multiplied by 0, so that NaN and infinities yield NaN.

func reluGrad[T element.Ordered](dst, g, features []T) {
	g, features = g[:len(dst)], features[:len(dst)]
	for i := range dst {
		if features[i] > 0 {
			dst[i] = g[i]
		} else {
			dst[i] = g[i] * 0
		}
	}
}

func relu6Grad[T element.Ordered](dst, g, features []T) {
	g, features = g[:len(dst)], features[:len(dst)]
	for i := range dst {
		if features[i] > 0 && features[i] < 6 {
			dst[i] = g[i]
		} else {
			dst[i] = g[i] * 0
		}
	}
}

func eluGrad64(g, out float64) float64 {
	if out < 0 {
		return (out + 1) * g
	}
	return g
}

func seluGrad64(g, out float64) float64 {
	if out < 0 {
		return g * (out + seluScaleAlpha)
	}
	return g * seluScale
}

func softplusGrad64(g, features float64) float64 { return g / (math.Exp(-features) + 1) }

func softsignGrad64(g, features float64) float64 {
	d := 1 + math.Abs(features)
	return g / (d * d)
}

// leaky returns the slice function of LeakyRelu, leakyGrad that of its gradient.
func leaky[T element.Floating](alpha T) func(dst, a []T) {
	return func(dst, a []T) {
		for i, v := range a {
			if v > 0 {
				dst[i] = v
			} else {
				dst[i] = v * alpha
			}
		}
	}
}

func leakyGrad[T element.Floating](alpha T) func(dst, g, features []T) {
	return func(dst, g, features []T) {
		for i := range dst {
			if features[i] > 0 {
				dst[i] = g[i]
			} else {
				dst[i] = g[i] * alpha
			}
		}
	}
}

// leakyRows and leakyGradRows return the rows of LeakyRelu and of its gradient, whose functions depend on an attribute.
func leakyRows() []kernels.Def {
	rows := func(alpha float32) elementwise.UnaryRows {
		return elementwise.Floats1(leaky(alpha), leaky(float64(alpha)))
	}
	var defs []kernels.Def
	for i, row := range rows(0) {
		defs = append(defs, kernels.Def{Types: dtypes.Only("T", row.In.DType), New: func(c *kernels.Construction) (any, error) {
			alpha, err := c.Attrs().Float("alpha")
			return &elementwise.UnaryKernel{UnaryRow: rows(alpha)[i], Grain: element.CheapGrain}, err
		}})
	}
	return defs
}

func leakyGradRows() []kernels.Def {
	rows := func(alpha float32) elementwise.BinaryRows {
		return elementwise.Floats2(leakyGrad(alpha), leakyGrad(float64(alpha)))
	}
	var defs []kernels.Def
	for i, row := range rows(0) {
		defs = append(defs, kernels.Def{Types: dtypes.Only("T", row.In.DType), New: func(c *kernels.Construction) (any, error) {
			alpha, err := c.Attrs().Float("alpha")
			return &elementwise.BinaryKernel{BinaryRow: rows(alpha)[i], BinaryOptions: elementwise.BinaryOptions{SameShape: true, Grain: element.CheapGrain}}, err
		}})
	}
	return defs
}
