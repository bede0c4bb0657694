package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// convolution names a convolution, the ops of its two gradients, and the attributes that they share. Each of the three is differentiated
// with the other two.
type convolution struct {
	forward, input, filter string
	attrs                  []string
}

var convolutions = []convolution{
	{"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", []string{"strides", "padding", "explicit_paddings", "dilations", "data_format", "use_cudnn_on_gpu"}},
	{"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", []string{"strides", "padding", "dilations", "data_format"}},
	{"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter",
		[]string{"strides", "padding", "explicit_paddings", "dilations", "data_format"}},
}

var (
	pool2D = []string{"ksize", "strides", "padding", "data_format"}
	poolV2 = []string{"padding", "data_format"}
)

func init() {
	gradients := map[string]func(g *call) []op.Output{
		"MaxPoolV2": func(g *call) []op.Output {
			return []op.Output{g.make("MaxPoolGradV2", g.attrs(poolV2...), g.x(0), g.Output(0), g.d(0), g.x(1), g.x(2)), none, none}
		},
		"MaxPoolGradV2": func(g *call) []op.Output {
			d := g.make("MaxPoolGradGradV2", g.attrs(poolV2...), g.x(0), g.x(1), g.d(0), g.x(3), g.x(4))
			return []op.Output{none, none, d, none, none}
		},
		"MaxPoolWithArgmax": func(g *call) []op.Output {
			return []op.Output{g.make("MaxPoolGradWithArgmax", g.attrs("ksize", "strides", "padding", "include_batch_in_index"), g.x(0), g.d(0), g.Output(1))}
		},
		"FractionalMaxPool": func(g *call) []op.Output {
			return []op.Output{g.make("FractionalMaxPoolGrad", g.attrs("overlapping"), g.x(0), g.Output(0), g.d(0), g.Output(1), g.Output(2))}
		},
		"FractionalAvgPool": func(g *call) []op.Output {
			return []op.Output{g.make("FractionalAvgPoolGrad", g.attrs("overlapping"), g.shapeAs(g.x(0), tensor.Int64), g.d(0), g.Output(1), g.Output(2))}
		},
		"Dilation2D": func(g *call) []op.Output {
			a := g.attrs("strides", "rates", "padding")
			return []op.Output{g.make("Dilation2DBackpropInput", a, g.x(0), g.x(1), g.d(0)), g.make("Dilation2DBackpropFilter", a, g.x(0), g.x(1), g.d(0))}
		},
		"ExtractImagePatches":  patches(2),
		"ExtractVolumePatches": patches(3),
		"MaxPool": func(g *call) []op.Output {
			return []op.Output{g.make("MaxPoolGrad", g.attrs(append(pool2D, "explicit_paddings")...), g.x(0), g.Output(0), g.d(0))}
		},
		"MaxPool3D": func(g *call) []op.Output {
			return []op.Output{g.make("MaxPool3DGrad", g.attrs(pool2D...), g.x(0), g.Output(0), g.d(0))}
		},
	}
	// The choice of max pooling does not change with the values of the inputs, so only the gradient of the gradient remains.
	for of, by := range map[string]string{"MaxPoolGrad": "MaxPoolGradGrad", "MaxPoolGradGrad": "MaxPoolGrad",
		"MaxPool3DGrad": "MaxPool3DGradGrad", "MaxPool3DGradGrad": "MaxPool3DGrad"} {
		gradients[of] = func(g *call) []op.Output {
			return []op.Output{none, none, g.make(by, g.attrs(pool2D...), g.x(0), g.x(1), g.d(0))}
		}
	}
	for _, name := range []string{"AvgPool", "AvgPool3D"} {
		gradients[name] = func(g *call) []op.Output {
			return []op.Output{g.make(name+"Grad", g.attrs(pool2D...), g.shape(g.x(0)), g.d(0))}
		}
		gradients[name+"Grad"] = func(g *call) []op.Output {
			return []op.Output{none, g.make(name, g.attrs(pool2D...), g.d(0))}
		}
	}
	for _, c := range convolutions {
		forward := func(g *call, x, w op.Output) op.Output { return g.make(c.forward, g.attrs(c.attrs...), x, w) }
		input := func(g *call, x, w, dy op.Output) op.Output {
			return g.make(c.input, g.attrs(c.attrs...), g.shape(x), w, dy)
		}
		filter := func(g *call, x, w, dy op.Output) op.Output {
			return g.make(c.filter, g.attrs(c.attrs...), x, g.shape(w), dy)
		}
		gradients[c.forward] = func(g *call) []op.Output {
			x, w, dy := g.x(0), g.x(1), g.d(0)
			return []op.Output{input(g, x, w, dy), filter(g, x, w, dy)}
		}
		gradients[c.input] = func(g *call) []op.Output {
			w, dy, ddx := g.x(1), g.x(2), g.d(0)
			return []op.Output{none, filter(g, ddx, w, dy), forward(g, ddx, w)}
		}
		gradients[c.filter] = func(g *call) []op.Output {
			x, dy, ddw := g.x(0), g.x(2), g.d(0)
			return []op.Output{input(g, x, ddw, dy), none, forward(g, x, ddw)}
		}
	}
	register(gradients, many)
}

// patches moves the gradients of patches back to the elements' positions. To find these, it extracts patches of the elements' numbers,
// which start at 1, since padding is 0.
func patches(spatial int32) func(g *call) []op.Output {
	attrs := []string{"ksizes", "strides", "padding"}
	if spatial == 2 {
		attrs = append(attrs, "rates")
	}
	return func(g *call) []op.Output {
		shape := g.shape(g.x(0))
		places := g.head(g.from(shape, 1), 1)
		one, channels := g.ints(1), g.at(shape, spatial+1)
		size := g.op("Prod", places, g.int(0))
		numbers := g.reshape(g.op("Range", g.long(1), g.add(g.cast(size, tensor.Int64), g.long(1)), g.long(1)), g.concat(0, one, places, one))
		from := g.make(g.Type(), g.attrs(attrs...), numbers)
		// Move the batch behind the positions, before only the channels, so that everything for one position is one row.
		each := g.reshape(g.d(0), g.make("Pack", nil, op.List{g.at(shape, 0), g.int(-1), channels}))
		rows := g.reshape(g.op("Transpose", each, g.ints(1, 0, 2)), g.make("Pack", nil, op.List{g.int(-1), g.mul(g.at(shape, 0), channels)}))
		sums := g.op("UnsortedSegmentSum", rows, g.sub(g.reshape(from, g.ints(-1)), g.long(1)), size)
		back := g.reshape(sums, g.make("Pack", nil, op.List{size, g.at(shape, 0), channels}))
		return []op.Output{g.reshape(g.op("Transpose", back, g.ints(1, 0, 2)), shape)}
	}
}
