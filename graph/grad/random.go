package grad

import (
	"math"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]func(g *call) []op.Output{
		"StatelessParameterizedTruncatedNormal": truncatedNormalSample,
	}, many)
}

// truncatedNormalSample returns how samples change with the parameters if their quantiles in the distribution stay the same (Figurnov et
// al., "Implicit reparameterization gradients", 2018). TensorFlow's version ignores that the bounds stay fixed when the mean or the
// deviation changes.
func truncatedNormalSample(g *call) []op.Output {
	mean, deviation, sample, dy := g.x(2), g.x(3), g.Output(0), g.d(0)
	standard := func(x op.Output) op.Output { return g.div(g.sub(x, mean), deviation) }
	low, high, at := standard(g.x(4)), standard(g.x(5)), standard(sample)
	below := func(x op.Output) op.Output { return g.scaled(g.op("Erfc", g.scaled(x, -math.Sqrt2/2)), 0.5) }
	// The quantile of the sample, limited to the range where its logarithm is finite.
	place := g.div(g.sub(below(at), below(low)), g.sub(below(high), below(low)))
	least, step := 0x1p-1022, 0x1p-52
	switch sample.DType() {
	case tensor.Float32:
		least, step = 0x1p-126, 0x1p-23
	case tensor.Float16:
		least, step = 0x1p-14, 0x1p-10
	}
	place = g.op("Minimum", g.op("Maximum", place, g.number(place, least)), g.number(place, 1-step))
	moves := func(bound, log op.Output) op.Output {
		return g.op("Exp", g.add(g.scaled(g.sub(g.square(at), g.square(bound)), 0.5), log))
	}
	byLow, byHigh := moves(low, g.op("Log1p", g.op("Neg", place))), moves(high, g.op("Log", place))
	out := make([]op.Output, 6)
	for i, slope := range map[int]op.Output{
		2: g.sub(g.number(at, 1), g.add(byLow, byHigh)),
		3: g.sub(at, g.add(g.mul(low, byLow), g.mul(high, byHigh))),
		4: byLow,
		5: byHigh,
	} {
		out[i], _ = g.unbroadcast(g.x(i), sample, g.mul(dy, slope), none)
	}
	return out
}
