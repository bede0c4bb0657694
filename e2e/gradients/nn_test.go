package gradients

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

var nnCases = slices.Concat([]gradCase{
	call("BiasAdd", nil, in(2, 3), in(3)), call("BiasAdd", attrs{"data_format": "NCHW"}, in(2, 3, 2, 1), in(3)), call("BiasAddV1", nil, in(2, 3), in(3)),
	call("BiasAddGrad", nil, in(2, 3)), call("BiasAddGrad", attrs{"data_format": "NCHW"}, in(2, 3, 2, 1)),
	call("LRN", attrs{"depth_radius": 1, "alpha": 0.5}, in(1, 1, 2, 4).of(tensor.Float32)),
	call("TopKV2", nil, in(2, 5).apart(), scalar(3)), call("NthElement", nil, in(2, 4).apart(), scalar(1)),
	// Both outputs: the second is the gradient of the first.
	{name: "SoftmaxCrossEntropyWithLogits", in: []input{in(3, 4), in(3, 4).between(0.1, 0.9)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		// The gradient assumes that each row of labels sums to 1.
		return floats(node(s, "SoftmaxCrossEntropyWithLogits", nil, x[0], node(s, "Softmax", nil, x[1]).Output(0)))[:1]
	}},
	call("SoftmaxCrossEntropyWithLogits", nil, in(3, 4), in(3, 4).with(1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0).fixed()),
	call("SparseSoftmaxCrossEntropyWithLogits", nil, in(3, 4), longs(0, 3, 1)),
	{name: "CTCLoss", in: []input{in(4, 2, 3).of(tensor.Float32), in(3, 2).of(tensor.Int64).with(0, 0, 0, 1, 1, 0).fixed(), ints(0, 1, 1), ints(4, 3)},
		f: func(s *op.Scope, x []op.Output) []op.Output {
			return floats(node(s, "CTCLoss", nil, x[0], x[1], x[2], x[3]))[:1]
		}},
	call("IsotonicRegression", attrs{"output_dtype": tensor.Float64}, in(2, 5).apart()),
	call("MaxPoolWithArgmax", attrs{"ksize": []int{1, 2, 2, 1}, "strides": []int{1, 1, 1, 1}, "padding": "SAME", "include_batch_in_index": true}, in(2, 3, 3, 2).apart()),
	call("FractionalMaxPool", attrs{"pooling_ratio": []float32{1, 1.5, 1.4, 1}, "deterministic": true, "seed": 3, "overlapping": true}, in(2, 5, 4, 2).apart()),
	call("FractionalAvgPool", attrs{"pooling_ratio": []float32{1, 1.5, 1.4, 1}, "deterministic": true, "seed": 3, "pseudo_random": true}, in(2, 5, 4, 2)),
	call("Dilation2D", attrs{"strides": []int{1, 1, 2, 1}, "rates": []int{1, 2, 1, 1}, "padding": "SAME"}, in(2, 4, 3, 2).apart(), in(2, 2, 2).apart().between(0.1, 0.2)),
	call("ExtractImagePatches", attrs{"ksizes": []int{1, 2, 3, 1}, "strides": []int{1, 2, 1, 1}, "rates": []int{1, 1, 2, 1}, "padding": "SAME"}, in(2, 4, 5, 2)),
	call("ExtractVolumePatches", attrs{"ksizes": []int{1, 2, 3, 2, 1}, "strides": []int{1, 1, 2, 1, 1}, "padding": "VALID"}, in(2, 3, 4, 2, 2)),
	call("MaxPoolV2", attrs{"padding": "SAME"}, in(1, 3, 3, 1).apart(), ints(1, 2, 2, 1), ints(1, 2, 2, 1)),
	call("ApproxTopK", attrs{"k": 2}, in(2, 5).apart().of(tensor.Float32)),
	call("ApproxTopK", attrs{"k": 2, "reduction_dimension": 1, "is_max_k": false}, in(2, 4, 3).apart().of(tensor.Float32)),
	call("ApproxTopK", attrs{"k": 1, "reduction_dimension": -3, "aggregate_to_topk": false}, in(3, 2, 2).apart().of(tensor.Float32)),
}, convolutions(), pools(), norms(), lstm())

func convolutions() (out []gradCase) {
	for _, a := range []attrs{
		{"strides": []int{1, 1, 1, 1}, "padding": "SAME"}, {"strides": []int{1, 2, 2, 1}, "padding": "VALID"},
		{"strides": []int{1, 1, 1, 1}, "padding": "EXPLICIT", "explicit_paddings": []int{0, 0, 1, 0, 0, 2, 0, 0}},
		{"strides": []int{1, 1, 1, 1}, "padding": "SAME", "dilations": []int{1, 2, 2, 1}},
	} {
		out = append(out, call("Conv2D", a, in(1, 4, 3, 2), in(2, 2, 2, 1)), call("DepthwiseConv2dNative", a, in(1, 4, 3, 2), in(2, 2, 2, 1)))
	}
	same := attrs{"strides": []int{1, 2, 2, 1}, "padding": "SAME"}
	out = append(out,
		call("Conv2DBackpropInput", same, ints(1, 3, 3, 1), in(2, 2, 1, 2), in(1, 2, 2, 2)), call("Conv2DBackpropFilter", same, in(1, 3, 3, 1), ints(2, 2, 1, 2), in(1, 2, 2, 2)),
		call("DepthwiseConv2dNativeBackpropInput", same, ints(1, 3, 3, 1), in(2, 2, 1, 2), in(1, 2, 2, 2)),
		call("DepthwiseConv2dNativeBackpropFilter", same, in(1, 3, 3, 1), ints(2, 2, 1, 2), in(1, 2, 2, 2)))
	cube := attrs{"strides": []int{1, 1, 2, 1, 1}, "padding": "SAME"}
	return append(out, call("Conv3D", cube, in(1, 2, 3, 2, 1), in(2, 2, 1, 1, 2)),
		call("Conv3DBackpropInputV2", cube, ints(1, 2, 3, 2, 1), in(2, 2, 1, 1, 2), in(1, 2, 2, 2, 2)),
		call("Conv3DBackpropFilterV2", cube, in(1, 2, 3, 2, 1), ints(2, 2, 1, 1, 2), in(1, 2, 2, 2, 2)))
}

func pools() (out []gradCase) {
	flat := attrs{"ksize": []int{1, 2, 2, 1}, "strides": []int{1, 2, 1, 1}, "padding": "SAME"}
	deep := attrs{"ksize": []int{1, 2, 2, 1, 1}, "strides": []int{1, 1, 2, 1, 1}, "padding": "SAME"}
	out = append(out, call("MaxPool", flat, in(1, 3, 3, 2).apart()), call("AvgPool", flat, in(1, 3, 3, 2)),
		call("AvgPoolGrad", flat, ints(1, 3, 3, 1), in(1, 2, 3, 1)), call("AvgPool3DGrad", deep, ints(1, 2, 3, 1, 1), in(1, 2, 2, 1, 1)),
		call("MaxPool3D", deep, in(1, 2, 3, 1, 1).of(tensor.Float32).apart()), call("AvgPool3D", deep, in(1, 2, 3, 1, 1)))
	// Gradients of gradients, for an input whose maxima do not move.
	for name, a := range map[string]attrs{"MaxPool": flat, "MaxPool3D": deep} {
		x, dy := in(1, 3, 3, 1).apart().fixed(), in(1, 2, 3, 1)
		if name == "MaxPool3D" {
			x, dy = in(1, 2, 3, 1, 1).of(tensor.Float32).apart().fixed(), in(1, 2, 2, 1, 1).of(tensor.Float32)
		}
		first := func(s *op.Scope, x, dy op.Output) (y, dx op.Output) {
			y = node(s, name, a, x).Output(0)
			return y, node(s, name+"Grad", a, x, y, dy).Output(0)
		}
		out = append(out, gradCase{name: name + "Grad", in: []input{x, dy}, f: func(s *op.Scope, x []op.Output) []op.Output {
			_, dx := first(s, x[0], x[1])
			return []op.Output{dx}
		}}, gradCase{name: name + "GradGrad", in: []input{x, x.free()}, f: func(s *op.Scope, x []op.Output) []op.Output {
			y := node(s, name, a, x[0]).Output(0)
			return floats(node(s, name+"GradGrad", a, x[0], y, x[1]))
		}})
	}
	x, dy := in(1, 3, 3, 1).apart().fixed(), in(1, 2, 2, 1)
	size, same := ints(1, 2, 2, 1), attrs{"padding": "SAME"}
	out = append(out, gradCase{name: "MaxPoolGradV2", in: []input{x, dy, size, size}, f: func(s *op.Scope, x []op.Output) []op.Output {
		y := node(s, "MaxPoolV2", same, x[0], x[2], x[3]).Output(0)
		return floats(node(s, "MaxPoolGradV2", same, x[0], y, x[1], x[2], x[3]))
	}})
	return out
}

func norms() (out []gradCase) {
	one := in(2).of(tensor.Float32).between(0.5, 1.5)
	for _, name := range []string{"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"} {
		for _, training := range []bool{true, false} {
			for _, format := range []string{"NHWC", "NCHW"} {
				x := in(2, 2, 2, 2).of(tensor.Float32)
				moments := []input{in(2).of(tensor.Float32).fixed(), one.fixed()}
				if training {
					moments = []input{in(0).of(tensor.Float32).fixed(), in(0).of(tensor.Float32).fixed()}
				}
				out = append(out, gradCase{name: name, in: append([]input{x, one, in(2).of(tensor.Float32)}, moments...), tolerance: 2e-2,
					f: func(s *op.Scope, x []op.Output) []op.Output {
						o := node(s, name, attrs{"is_training": training, "data_format": format, "epsilon": 0.1}, x[0], x[1], x[2], x[3], x[4])
						return []op.Output{o.Output(0)}
					}})
			}
		}
	}
	// Gradients of gradients.
	for _, name := range []string{"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"} {
		for _, training := range []bool{true, false} {
			x := in(2, 2, 1, 2).of(tensor.Float32)
			out = append(out, gradCase{name: name, in: []input{x, x.apart(), one, in(2).of(tensor.Float32).fixed(), one.fixed()}, tolerance: 2e-2,
				f: func(s *op.Scope, x []op.Output) []op.Output {
					a := attrs{"is_training": training, "epsilon": 0.5}
					mean, variance, in := x[3], x[4], []op.Input{}
					if training { // computed by the op itself
						empty := node(s, "Const", attrs{"dtype": tensor.Float32, "value": emptyFloats()}).Output(0)
						forward := node(s, strings.Replace(name, "Grad", "", 1), a, x[1], x[2], x[2], empty, empty)
						mean, variance = node(s, "StopGradient", nil, forward.Output(3)).Output(0), node(s, "StopGradient", nil, forward.Output(4)).Output(0)
					}
					in = append(in, x[0], x[1], x[2], mean, variance)
					if strings.HasSuffix(name, "V3") {
						in = append(in, node(s, "Const", attrs{"dtype": tensor.Float32, "value": emptyFloats()}).Output(0))
					}
					return floats(node(s, name, a, in...))[:3]
				}})
		}
	}
	return out
}

func emptyFloats() *tensor.Tensor {
	t, err := tensor.FromSlice(tensor.Float32, tensor.Shape{0}, []float32{})
	if err != nil {
		panic(err)
	}
	return t
}

func lstm() (out []gradCase) {
	f32 := func(sizes ...int64) input { return in(sizes...).of(tensor.Float32).between(-0.5, 0.5) }
	for _, name := range []string{"BlockLSTM", "BlockLSTMV2"} {
		for _, peephole := range []bool{false, true} {
			// Two steps of a cell with two numbers.
			arguments := []input{in().of(tensor.Int64).with(2).fixed(), f32(2, 1, 2), f32(1, 2), f32(1, 2), f32(4, 8), f32(2), f32(2), f32(2), f32(8)}
			out = append(out, gradCase{name: name, in: arguments, f: func(s *op.Scope, x []op.Output) []op.Output {
				o := node(s, name, attrs{"use_peephole": peephole}, each(x, func(o op.Output) op.Input { return o })...)
				return []op.Output{o.Output(6)}
			}})
		}
	}
	return out
}
