package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]unary{
		"LRN": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("LRNGrad", g.attrs("depth_radius", "bias", "alpha", "beta"), dy, x, y)
		},
		"BiasAddGrad": func(g *call, x, y, dy op.Output) op.Output {
			if g.text("data_format") == "NCHW" {
				shape := g.shape(x)
				rest := g.fill(g.expand(g.sub(g.op("Size", shape), g.int(2)), 0), g.int(1))
				dy = g.reshape(dy, g.concat(0, g.shape(dy), rest))
			}
			return g.op("BroadcastTo", dy, g.shape(x))
		},
		"TopKV2":             topK,
		"ApproxTopK":         approxTopK,
		"IsotonicRegression": isotonic,
		"NthElement": func(g *call, x, y, dy op.Output) op.Output {
			chosen := g.cast(g.op("Equal", g.expand(y, -1), x), dy.DType().Base())
			return g.mul(g.div(chosen, g.total(chosen, g.ints(-1), true)), g.expand(dy, -1))
		},
	}, one)
	register(map[string]func(g *call) []op.Output{
		"BiasAdd": func(g *call) []op.Output {
			return []op.Output{g.d(0), g.make("BiasAddGrad", g.attrs("data_format"), g.d(0))}
		},
		"BiasAddV1": func(g *call) []op.Output { return []op.Output{g.d(0), g.op("BiasAddGrad", g.d(0))} },
		"SoftmaxCrossEntropyWithLogits": func(g *call) []op.Output {
			return []op.Output{g.crossEntropy(), g.mul(g.expand(g.d(0), -1), g.neg(g.op("LogSoftmax", g.x(0))))}
		},
		"SparseSoftmaxCrossEntropyWithLogits": func(g *call) []op.Output { return []op.Output{g.crossEntropy(), none} },
		"QuantizeAndDequantizeV2":             func(g *call) []op.Output { return []op.Output{g.d(0), none, none} },
		"QuantizeAndDequantizeV3":             func(g *call) []op.Output { return []op.Output{g.d(0), none, none, none} },
		"QuantizeAndDequantizeV4":             func(g *call) []op.Output { return g.roundTrip(g.d(0), 0) },
		"QuantizeAndDequantizeV4Grad": func(g *call) []op.Output {
			// The input only determines where the gradient is zero.
			return []op.Output{g.roundTrip(g.d(0), 1)[0], none, none, none}
		},
		"FakeQuantWithMinMaxArgs": func(g *call) []op.Output {
			return []op.Output{g.make("FakeQuantWithMinMaxArgsGradient", g.attrs("min", "max", "num_bits", "narrow_range"), g.d(0), g.x(0))}
		},
		"FakeQuantWithMinMaxVars":           fakeQuant("FakeQuantWithMinMaxVarsGradient"),
		"FakeQuantWithMinMaxVarsPerChannel": fakeQuant("FakeQuantWithMinMaxVarsPerChannelGradient"),
		"CTCLoss": func(g *call) []op.Output {
			const message = "Currently there is no way to take the second  derivative of ctc_loss due to the fused implementation's interaction  with tf.gradients()"
			first := g.make("PreventGradient", map[string]any{"message": message}, g.Output(1))
			return []op.Output{g.mul(g.expand(g.d(0), -1), first), none, none, none}
		},
		"BlockLSTM":   blockLSTM("BlockLSTMGrad"),
		"BlockLSTMV2": blockLSTM("BlockLSTMGradV2"),
	}, many)
}

// topK moves the gradients of the largest elements back to the elements' positions in the last dimension.
func topK(g *call, x, y, dy op.Output) op.Output { return g.putBack(x, dy, -1) }

func approxTopK(g *call, x, y, dy op.Output) op.Output {
	return g.putBack(x, dy, int32(g.Attrs()["reduction_dimension"].GetI()))
}

// putBack moves the elements of dy to their positions along an axis of x, which the second output contains.
func (g *call) putBack(x, dy op.Output, axis int32) op.Output {
	shape, found := g.shape(x), g.shape(dy)
	count, length := g.at(found, axis), g.at(shape, axis)
	after := g.ints()
	if axis != -1 {
		after = g.from(shape, axis+1)
	}
	inner := g.op("Prod", after, g.int(0))
	at := g.reshape(g.Output(1), g.make("Pack", nil, op.List{g.int(-1), count, inner}))
	column := g.expand(g.expand(g.span(g.int(0), g.at(g.shape(at), 0)), -1), -1)
	at = g.add(g.mul(g.add(g.cast(at, tensor.Int32), g.mul(column, length)), inner), g.span(g.int(0), inner))
	size := g.make("Prod", map[string]any{"keep_dims": true}, shape, g.ints(0))
	return g.reshape(g.op("ScatterNd", g.reshape(at, g.ints(-1, 1)), g.reshape(dy, g.ints(-1)), size), shape)
}

// isotonic returns, for each element, the mean of the gradients of its segment.
func isotonic(g *call, x, y, dy op.Output) op.Output {
	shape := g.shape(dy)
	rows := g.make("Pack", nil, op.List{g.int(-1), g.at(shape, -1)})
	d, segments := g.reshape(dy, rows), g.reshape(g.Output(1), rows)
	columns := g.at(shape, -1)
	first := g.expand(g.mul(g.span(g.int(0), g.at(g.shape(d), 0)), columns), -1)
	ids := g.reshape(g.add(segments, first), g.ints(-1))
	all := g.op("Size", dy)
	flat := g.reshape(d, g.ints(-1))
	sums := g.op("UnsortedSegmentSum", flat, ids, all)
	counts := g.op("UnsortedSegmentSum", g.op("OnesLike", flat), ids, all)
	return g.reshape(g.gather(g.op("DivNoNan", sums, counts), ids), shape)
}

// crossEntropy returns the gradient of the logits, which the op has already computed as its second output.
func (g *call) crossEntropy() op.Output {
	dx := g.mul(g.expand(g.d(0), -1), g.Output(1))
	if !g.dy[1].Connected() {
		return dx
	}
	// The second output has a gradient: this is a second derivative.
	p := g.op("Softmax", g.x(0))
	second := g.d(1)
	mean := g.total(g.mul(second, p), g.ints(-1), true)
	return g.add(dx, g.mul(g.sub(second, mean), p))
}

func blockLSTM(name string) func(g *call) []op.Output {
	return func(g *call) []op.Output {
		var in []op.Input
		for _, x := range g.Inputs() {
			in = append(in, x)
		}
		for i := range g.NumOutputs() {
			in = append(in, g.Output(i))
		}
		o := g.node(name, g.attrs("use_peephole"), append(in, g.d(1), g.d(6))...)
		out := []op.Output{none}
		for i := range 8 {
			out = append(out, o.Output(i))
		}
		return out
	}
}

// fakeQuant returns the gradients of the input and of the ends of its range.
func fakeQuant(name string) func(g *call) []op.Output {
	return func(g *call) []op.Output {
		o := g.node(name, g.attrs("num_bits", "narrow_range"), g.d(0), g.x(0), g.x(1), g.x(2))
		return []op.Output{o.Output(0), o.Output(1), o.Output(2)}
	}
}

// roundTrip returns the gradients of input i, which is quantized and dequantized, and of the ends of its range.
func (g *call) roundTrip(dy op.Output, i int) []op.Output {
	o := g.node("QuantizeAndDequantizeV4Grad", g.attrs("axis"), dy, g.x(i), g.x(i+1), g.x(i+2))
	return []op.Output{o.Output(0), o.Output(1), o.Output(2)}
}
