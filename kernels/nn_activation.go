package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

func relu[T ordered](dst, a []T) {
	for i, v := range a {
		dst[i] = max(v, 0)
	}
}

func relu6[T ordered](dst, a []T) {
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

// The constants of selu, from the paper on self-normalizing networks.
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

func softsign[T floating](dst, a []T) {
	for i, v := range a {
		dst[i] = v / (1 + T(math.Abs(float64(v))))
	}
}

// The gradients take the gradient of the result first, then the op's input (features) or, for
// elu and selu, its output.

// Where a unit is at rest the gradient is multiplied by 0, which NaN and infinities survive.

func reluGrad[T ordered](dst, g, features []T) {
	g, features = g[:len(dst)], features[:len(dst)]
	for i := range dst {
		if features[i] > 0 {
			dst[i] = g[i]
		} else {
			dst[i] = g[i] * 0
		}
	}
}

func relu6Grad[T ordered](dst, g, features []T) {
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

// leaky makes the slice function of LeakyRelu, leakyGrad that of its gradient.
func leaky[T floating](alpha T) func(dst, a []T) {
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

func leakyGrad[T floating](alpha T) func(dst, g, features []T) {
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

func init() {
	same := binaryOptions{sameShape: true}
	Register(unary("Relu", cheapGrain, floats1(simd.Relu, relu[float64]), signed1(relu[int8], relu[int16], relu[int32], relu[int64]),
		unsigned1(relu[uint8], relu[uint16], relu[uint32], relu[uint64]))...)
	Register(binary("ReluGrad", same, floats2(simd.ReluGrad, reluGrad[float64]), signed2(reluGrad[int8], reluGrad[int16], reluGrad[int32], reluGrad[int64]),
		unsigned2(reluGrad[uint8], reluGrad[uint16], reluGrad[uint32], reluGrad[uint64]))...)
	Register(unary("Relu6", cheapGrain, floats1(relu6[float32], relu6[float64]), signed1(relu6[int8], relu6[int16], relu6[int32], relu6[int64]),
		unsigned1(relu6[uint8], relu6[uint16], relu6[uint32], relu6[uint64]))...)
	Register(binary("Relu6Grad", same, floats2(relu6Grad[float32], relu6Grad[float64]), signed2(relu6Grad[int8], relu6Grad[int16], relu6Grad[int32], relu6Grad[int64]),
		unsigned2(relu6Grad[uint8], relu6Grad[uint16], relu6Grad[uint32], relu6Grad[uint64]))...)
	Register(unary("Elu", costlyGrain, perElement1(elu64))...)
	Register(binary("EluGrad", same, perElement2(eluGrad64))...)
	Register(unary("Selu", costlyGrain, perElement1(selu64))...)
	Register(binary("SeluGrad", same, perElement2(seluGrad64))...)
	Register(unary("Softplus", costlyGrain, perElement1(softplus64))...)
	Register(binary("SoftplusGrad", same, perElement2(softplusGrad64))...)
	Register(unary("Softsign", cheapGrain, floats1(softsign[float32], softsign[float64]))...)
	Register(binary("SoftsignGrad", same, perElement2(softsignGrad64))...)

	leakyRows := func(alpha float32) unaryRows { return floats1(leaky(alpha), leaky(float64(alpha))) }
	leakyGrads := func(alpha float32) binaryRows { return floats2(leakyGrad(alpha), leakyGrad(float64(alpha))) }
	for i, row := range leakyRows(0) {
		types := map[string][]tensor.DType{"T": {row.in.dtype}}
		Register(
			Def{Op: "LeakyRelu", Types: types, New: func(c *Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &unaryKernel{leakyRows(alpha)[i], cheapGrain}, err
			}},
			Def{Op: "LeakyReluGrad", Types: types, New: func(c *Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &binaryKernel{binaryRow: leakyGrads(alpha)[i], binaryOptions: binaryOptions{sameShape: true, grain: cheapGrain}}, err
			}})
	}
}
