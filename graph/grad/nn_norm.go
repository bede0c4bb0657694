package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]func(g *call) []op.Output{
		"FusedBatchNorm":       batchNorm("FusedBatchNormGrad", false),
		"FusedBatchNormV2":     batchNorm("FusedBatchNormGradV2", false),
		"FusedBatchNormV3":     batchNorm("FusedBatchNormGradV3", true),
		"FusedBatchNormGrad":   secondBatchNorm,
		"FusedBatchNormGradV2": secondBatchNorm,
		"FusedBatchNormGradV3": func(g *call) []op.Output { return append(secondBatchNorm(g), none) },
	}, many)
}

// batchNorm differentiates normalization. In inference, the moments are constant inputs, and the gradient's kernel requires the channels
// to be last.
func batchNorm(name string, reserve bool) func(g *call) []op.Output {
	return func(g *call) []op.Output {
		x, dy := g.x(0), g.d(0)
		attrs := g.attrs("epsilon", "data_format", "is_training")
		mean, variance := g.Output(3), g.Output(4)
		var back op.Output
		if !g.flag("is_training") {
			mean, variance = g.x(3), g.x(4)
			switch g.text("data_format") {
			case "NCHW":
				attrs["data_format"] = "NHWC"
				last := g.ints(0, 2, 3, 1)
				x, dy, back = g.op("Transpose", x, last), g.op("Transpose", dy, last), g.ints(0, 3, 1, 2)
			case "NCDHW":
				attrs["data_format"] = "NDHWC"
				last := g.ints(0, 2, 3, 4, 1)
				x, dy, back = g.op("Transpose", x, last), g.op("Transpose", dy, last), g.ints(0, 4, 1, 2, 3)
			}
		}
		in := []op.Input{dy, x, g.x(1), mean, variance}
		if reserve {
			in = append(in, g.Output(5))
		}
		o := g.node(name, attrs, in...)
		dx := o.Output(0)
		if back.Op != nil {
			dx = g.op("Transpose", dx, back)
		}
		return []op.Output{dx, o.Output(1), o.Output(2), none, none}
	}
}

// secondBatchNorm differentiates the gradient of a normalization: its formula, built with plain ops.
func secondBatchNorm(g *call) []op.Output {
	s, dtype := g.s, g.x(1).DType().Base()
	wide := func(v op.Output) op.Output { return g.cast(v, tensor.Float32) }
	dy, x, scale := wide(g.x(0)), wide(g.x(1)), wide(g.x(2))
	axes, channels := g.ints(0, 1, 2), g.ints(1, 1, 1, -1)
	switch g.text("data_format") {
	case "NCHW":
		axes, channels = g.ints(0, 2, 3), g.ints(1, -1, 1, 1)
	case "NDHWC":
		axes, channels = g.ints(0, 1, 2, 3), g.ints(1, 1, 1, 1, -1)
	case "NCDHW":
		axes, channels = g.ints(0, 2, 3, 4), g.ints(1, -1, 1, 1, 1)
	}
	mean := func(v op.Output) op.Output { return op.Mean(s, v, axes, attr.KeepDims(true)) }
	wideScale, epsilon := g.reshape(scale, channels), g.number(x, float64(g.Attrs()["epsilon"].GetF()))
	var dx, dscale op.Output
	if g.flag("is_training") {
		offset := g.sub(x, mean(x))
		variance := g.add(mean(g.square(offset)), epsilon)
		root := g.op("Rsqrt", variance)
		inner := g.mul(g.div(mean(g.mul(dy, offset)), variance), offset)
		dx = g.mul(g.mul(wideScale, root), g.sub(g.sub(dy, mean(dy)), inner))
		dscale = g.total(g.mul(g.mul(dy, offset), root), axes, false)
	} else {
		root := g.op("Rsqrt", g.add(g.reshape(wide(g.x(4)), channels), epsilon))
		dx = g.mul(g.mul(dy, wideScale), root)
		dscale = g.total(g.mul(g.mul(dy, g.sub(x, g.reshape(wide(g.x(3)), channels))), root), axes, false)
	}
	doffset := g.total(dy, axes, false)
	second := Gradients(s, []op.Output{dx, dscale, doffset}, []op.Output{dy, x, scale}, From(wide(g.d(0)), g.d(1), g.d(2)))
	out := make([]op.Output, 5)
	for i, d := range second {
		if out[i] = d.Dense(s); i < 2 && d.Connected() {
			out[i] = g.cast(out[i], dtype)
		}
	}
	return out
}
