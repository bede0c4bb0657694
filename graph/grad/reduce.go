package grad

import (
	"math"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]unary{
		"Sum": func(g *call, x, y, dy op.Output) op.Output { return g.spread(x, dy) },
		"Mean": func(g *call, x, y, dy op.Output) op.Output {
			var count op.Output
			if x.Shape().Full() && y.Shape().Full() {
				in, _ := x.Shape().Dims()
				out, _ := y.Shape().Dims()
				count = g.number(dy, float64(in.Elements()/max(out.Elements(), 1)))
			} else {
				size := func(v op.Output) op.Output { return g.make("Size", map[string]any{"out_type": tensor.Int64}, v) }
				one := g.long(1)
				count = g.cast(g.op("FloorDiv", size(x), g.op("Maximum", size(y), one)), dy.DType().Base())
			}
			return g.div(g.spread(x, dy), count)
		},
		"Max": extreme,
		"Min": extreme,
		"EuclideanNorm": func(g *call, x, y, dy op.Output) op.Output {
			y, dy = g.keep(y), g.keep(dy)
			return g.div(x, g.div(y, dy))
		},
		"Prod": product,
		"Cumsum": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("Cumsum", g.backwards(), dy, g.x(1))
		},
		"CumulativeLogsumexp": func(g *call, x, y, dy op.Output) op.Output {
			// The positive and the negative part of the gradient have logarithms.
			part := func(dy op.Output) op.Output {
				logs := g.where(g.op("Greater", dy, g.zeros(dy)), g.op("Log", dy), g.number(dy, lowest[dy.DType().Base()]))
				return g.op("Exp", g.add(g.make("CumulativeLogsumexp", g.backwards(), g.sub(logs, y), g.x(1)), x))
			}
			return g.sub(part(dy), part(g.neg(dy)))
		},
		"Cumprod": func(g *call, x, y, dy op.Output) op.Output {
			product := g.make("Cumprod", g.attrs("exclusive", "reverse"), x, g.x(1))
			return g.op("DivNoNan", g.make("Cumsum", g.backwards(), g.mul(product, dy), g.x(1)), x)
		},
	}, one)
}

// lowest holds the lowest finite number of each type.
var lowest = map[tensor.DType]float64{tensor.Float16: -65504, tensor.BFloat16: -0x1.fep127, tensor.Float32: -math.MaxFloat32, tensor.Float64: -math.MaxFloat64}

// keep restores the reduced axes of y, or of its gradient, with size 1.
func (g *call) keep(v op.Output) op.Output {
	if g.flag("keep_dims") {
		return v
	}
	return g.reshape(v, g.kept(g.x(0), g.x(1)))
}

// spread returns, for each element of x, the gradient of the sum that it is part of.
func (g *call) spread(x, dy op.Output) op.Output { return g.op("BroadcastTo", g.keep(dy), g.shape(x)) }

// extreme divides the gradient of a maximum or minimum among all elements equal to it.
func extreme(g *call, x, y, dy op.Output) op.Output {
	y, dy = g.keep(y), g.keep(dy)
	chosen := g.cast(g.op("Equal", y, x), dy.DType().Base())
	count := g.total(chosen, g.x(1), true)
	return g.mul(g.div(chosen, count), dy)
}

// product multiplies, for each element, all elements before it and all after it, so that zeros cause no division by zero.
func product(g *call, x, y, dy op.Output) op.Output {
	shape := g.shape(x)
	dy = g.spread(x, dy)
	rank := g.op("Size", shape)
	axes := g.reshape(g.cast(g.x(1), tensor.Int32), g.ints(-1))
	axes = g.op("FloorMod", g.add(axes, rank), rank)
	others := g.op("ListDiff", g.span(g.int(0), rank), axes)
	perm := g.concat(0, axes, others)
	count := func(axes op.Output) op.Output {
		return g.make("Prod", map[string]any{"keep_dims": true}, g.gather(shape, axes), g.ints(0))
	}
	turned := g.op("Transpose", x, perm)
	rows := g.reshape(turned, g.concat(0, count(axes), count(others)))
	before := g.make("Cumprod", map[string]any{"exclusive": true}, rows, g.int(0))
	after := g.make("Cumprod", map[string]any{"exclusive": true, "reverse": true}, rows, g.int(0))
	rest := g.reshape(g.mul(g.conj(before), g.conj(after)), g.shape(turned))
	return g.mul(dy, g.op("Transpose", rest, g.op("InvertPermutation", perm)))
}

// backwards returns the attributes of a cumulative op that runs in the other direction.
func (g *call) backwards() map[string]any {
	attrs := g.attrs("exclusive")
	attrs["reverse"] = !g.flag("reverse")
	return attrs
}
