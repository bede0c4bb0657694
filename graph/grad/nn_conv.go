package grad

import "github.com/troupe-run/troupe/graph/op"

// convolution names a convolution, the ops of its two gradients, and the attributes that they share. Each of the three
// is differentiated with the two others.
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
		"MaxPool": func(g *call) []op.Output {
			return []op.Output{g.make("MaxPoolGrad", g.attrs(append(pool2D, "explicit_paddings")...), g.x(0), g.Output(0), g.d(0))}
		},
		"MaxPool3D": func(g *call) []op.Output {
			return []op.Output{g.make("MaxPool3DGrad", g.attrs(pool2D...), g.x(0), g.Output(0), g.d(0))}
		},
	}
	// What max pooling chose does not change with the values of the inputs, so that only the gradient's gradient is left.
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
