package graph

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// otherGradients holds the gradients of ops whose inputs are of several kinds.
var otherGradients = map[string]func(g *grad) ([]value, error){
	"Reshape":    reshapeGradient,
	"ExpandDims": reshapeGradient,
	"Pack": func(g *grad) ([]value, error) {
		n := len(g.x)
		return outputs(g.backprop.node("Unpack", g.attrs("T", "axis").with("num", intOf(int64(n))), g.dy[0]), n), nil
	},
	"Unpack": func(g *grad) ([]value, error) {
		return []value{g.backprop.node("Pack", g.attrs("T", "axis").with("N", intOf(int64(len(g.dy)))), g.dy...)}, nil
	},
	"Concat": func(g *grad) ([]value, error) {
		return append([]value{g.zeros(0)}, g.slices(g.x[0], g.x[1:])...), nil
	},
	"ConcatV2": func(g *grad) ([]value, error) {
		last := len(g.x) - 1
		return append(g.slices(g.toInt32(last), g.x[:last]), g.zeros(last)), nil
	},
	"Split": func(g *grad) ([]value, error) { return []value{g.zeros(0), g.joined(g.x[0])}, nil },
	"SplitV": func(g *grad) ([]value, error) {
		return []value{g.joined(g.x[2]), g.zeros(1), g.zeros(2)}, nil
	},
	"_ArrayToList": func(g *grad) ([]value, error) { return slices.Clone(g.dy), nil },
	"_ListToArray": func(g *grad) ([]value, error) { return slices.Clone(g.dy), nil },
	"Fill": func(g *grad) ([]value, error) {
		axes := g.backprop.node("Range", Attrs{"Tidx": typeOf(tensor.Int32)}, g.int(0, false), g.op("Rank", g.dy[0]), g.int(1, false))
		return []value{g.zeros(0), g.op("Sum", g.dy[0], axes)}, nil
	},
	"Transpose":          func(g *grad) ([]value, error) { return g.transposed("Transpose"), nil },
	"ConjugateTranspose": func(g *grad) ([]value, error) { return g.transposed("ConjugateTranspose"), nil },
	"GatherNd": func(g *grad) ([]value, error) {
		params, indices := g.node.Attrs["Tparams"], g.node.Attrs["Tindices"]
		shape := g.backprop.node("Shape", Attrs{"T": params, "out_type": indices}, g.x[0])
		return []value{g.backprop.node("ScatterNd", Attrs{"T": params, "Tindices": indices}, g.x[1], g.dy[0], shape), g.zeros(1)}, nil
	},
	"Reverse": func(g *grad) ([]value, error) { return []value{g.op("Reverse", g.dy[0], g.x[1]), g.zeros(1)}, nil },
	"ReverseV2": func(g *grad) ([]value, error) {
		if err := g.onlyInt32("Tidx", "ReverseV2Grad"); err != nil {
			return nil, err
		}
		return []value{g.op("ReverseV2", g.dy[0], g.x[1]), g.zeros(1)}, nil
	},
	"Slice": sliceGradient,
	"StridedSlice": func(g *grad) ([]value, error) {
		if err := g.onlyInt32("Index", "SliceGrad"); err != nil {
			return nil, err
		}
		dx := g.backprop.node("StridedSliceGrad", g.stride(), g.op("Shape", g.x[0]), g.x[1], g.x[2], g.x[3], g.dy[0])
		return []value{dx, g.zeros(1), g.zeros(2), g.zeros(3)}, nil
	},
	"StridedSliceGrad": func(g *grad) ([]value, error) {
		if err := g.onlyInt32("Index", "SliceGrad"); err != nil {
			return nil, err
		}
		dy := g.backprop.node("StridedSlice", g.stride(), g.dy[0], g.x[1], g.x[2], g.x[3])
		return []value{g.zeros(0), g.zeros(1), g.zeros(2), g.zeros(3), dy}, nil
	},
	"BroadcastTo": func(g *grad) ([]value, error) {
		if err := g.onlyInt32("Tidx", "BroadcastToGrad"); err != nil {
			return nil, err
		}
		shape := g.op("Shape", g.x[0])
		axes := g.ints("BroadcastGradientArgs", shape, g.x[1])
		return []value{g.op("Reshape", g.op("Sum", g.dy[0], axes), shape), g.zeros(1)}, nil
	},
	"Select": func(g *grad) ([]value, error) {
		zeros := g.op("ZerosLike", g.x[1])
		return []value{g.zeros(0), g.op("Select", g.x[0], g.dy[0], zeros), g.op("Select", g.x[0], zeros, g.dy[0])}, nil
	},
	"Sum": func(g *grad) ([]value, error) {
		kept, scale := g.reduced()
		return []value{g.op("Tile", g.op("Reshape", g.dy[0], kept), scale), g.zeros(1)}, nil
	},
	"Mean": func(g *grad) ([]value, error) {
		kept, scale := g.reduced()
		count := g.cast(g.ints("Prod", scale, g.int(0, false)), typeOf(tensor.Int32), g.t)
		return []value{g.op("Tile", g.op("Reshape", g.op("Div", g.dy[0], count), kept), scale), g.zeros(1)}, nil
	},
	"Max":           func(g *grad) ([]value, error) { return g.extreme("Max"), nil },
	"Min":           func(g *grad) ([]value, error) { return g.extreme("Min"), nil },
	"MatMul":        func(g *grad) ([]value, error) { return g.product("MatMul", "transpose_a", "transpose_b", false) },
	"BatchMatMul":   func(g *grad) ([]value, error) { return g.product("BatchMatMul", "adj_x", "adj_y", false) },
	"BatchMatMulV2": func(g *grad) ([]value, error) { return g.product("BatchMatMulV2", "adj_x", "adj_y", true) },
	"Conv2D": func(g *grad) ([]value, error) {
		attrs := func() Attrs {
			return g.attrs("T", "strides", "padding", "explicit_paddings", "dilations", "data_format", "use_cudnn_on_gpu")
		}
		return []value{g.backprop.node("Conv2DBackpropInput", attrs(), g.op("Shape", g.x[0]), g.x[1], g.dy[0]),
			g.backprop.node("Conv2DBackpropFilter", attrs(), g.x[0], g.op("Shape", g.x[1]), g.dy[0])}, nil
	},
	"MaxPool": func(g *grad) ([]value, error) {
		y := g.backprop.node("MaxPool", g.pool(), g.x[0])
		return []value{g.backprop.node("MaxPoolGrad", g.pool(), g.x[0], y, g.dy[0])}, nil
	},
	"AvgPool": func(g *grad) ([]value, error) {
		return []value{g.backprop.node("AvgPoolGrad", g.pool(), g.op("Shape", g.x[0]), g.dy[0])}, nil
	},
	"BiasAdd": func(g *grad) ([]value, error) {
		return []value{g.dy[0], g.backprop.node("BiasAddGrad", g.attrs("T", "data_format"), g.dy[0])}, nil
	},
}

func reshapeGradient(g *grad) ([]value, error) {
	return []value{g.op("Reshape", g.dy[0], g.op("Shape", g.x[0])), g.zeros(1)}, nil
}

// slices returns the part of dy that belongs to each of the concatenated inputs.
func (g *grad) slices(axis value, x []value) []value {
	n := len(x)
	shapes := g.backprop.node("ShapeN", Attrs{"T": g.t, "N": intOf(int64(n))}, x...)
	offsets := g.backprop.node("ConcatOffset", Attrs{"N": intOf(int64(n))}, append([]value{axis}, outputs(shapes, n)...)...)
	out := make([]value, n)
	for i := range out {
		out[i] = g.backprop.node("Slice", Attrs{"T": g.t, "Index": typeOf(tensor.Int32)}, g.dy[0], offsets.output(i), shapes.output(i))
	}
	return out
}

// joined returns all of dy concatenated.
func (g *grad) joined(axis value) value {
	return g.backprop.node("Concat", Attrs{"T": g.t, "N": intOf(int64(len(g.dy)))}, append([]value{axis}, g.dy...)...)
}

func (g *grad) transposed(op string) []value {
	index := typeOf(g.node.InTypes[1].Base())
	back := g.backprop.node("InvertPermutation", Attrs{"T": index}, g.x[1])
	return []value{g.backprop.node(op, Attrs{"T": g.t, "Tperm": index}, g.dy[0], back), g.zeros(1)}
}

func sliceGradient(g *grad) ([]value, error) {
	if err := g.onlyInt32("Index", "SliceGrad"); err != nil {
		return nil, err
	}
	one := g.int(1, false)
	column := func(v value) value { return g.ints("ExpandDims", v, one) }
	after := g.ints("Sub", g.ints("Sub", g.op("Shape", g.x[0]), g.x[1]), g.op("Shape", g.dy[0]))
	paddings := g.backprop.node("Concat", Attrs{"T": typeOf(tensor.Int32), "N": intOf(2)}, one, column(g.x[1]), column(after))
	return []value{g.op("Pad", g.dy[0], paddings), g.zeros(1), g.zeros(2)}, nil
}

// stride returns the attributes that a StridedSlice and its gradient share.
func (g *grad) stride() Attrs {
	return g.attrs("T", "Index", "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
}

// pool returns the attributes that a pooling op and its gradient share.
func (g *grad) pool() Attrs {
	return g.attrs("T", "ksize", "strides", "padding", "data_format")
}

// reduced returns, for a reduction, the shape of its input with the reduced axes set to one, and how often each axis of the result must be
// repeated.
func (g *grad) reduced() (kept, scale value) {
	shape, rank := g.op("Shape", g.x[0]), g.op("Rank", g.x[0])
	axes := g.ints("FloorMod", g.ints("AddV2", g.toInt32(1), rank), rank)
	all := g.backprop.node("Range", Attrs{"Tidx": typeOf(tensor.Int32)}, g.int(0, false), rank, g.int(1, false))
	ones := g.ints("Fill", g.ints("Shape", axes), g.int(1, false))
	kept = g.backprop.node("DynamicStitch", Attrs{"T": typeOf(tensor.Int32), "N": intOf(2)}, all, axes, shape, ones)
	return kept, g.ints("Div", shape, g.ints("Maximum", kept, g.int(1, false)))
}

// extreme divides the gradient among all elements that are equal to the maximum or minimum.
func (g *grad) extreme(op string) []value {
	index := g.node.Attrs["Tidx"]
	y := g.backprop.node(op, Attrs{"T": g.t, "Tidx": index, "keep_dims": boolOf(true)}, g.x[0], g.x[1])
	mask := g.mask(g.op("Equal", g.x[0], y))
	count := g.backprop.node("Sum", Attrs{"T": g.t, "Tidx": index, "keep_dims": boolOf(true)}, mask, g.x[1])
	each := g.op("Div", g.op("Reshape", g.dy[0], g.op("Shape", y)), count)
	return []value{g.op("Mul", mask, each), g.zeros(1)}
}

// product returns the gradients of a matrix product in which either matrix may be transposed.
func (g *grad) product(op, attrX, attrY string, broadcasts bool) ([]value, error) {
	if tensor.FromProto(g.t.GetType()).IsComplex() {
		return nil, status.Unimplementedf("MatMul gradient for complex is not supported yet.")
	}
	x, y, dz := g.x[0], g.x[1], g.dy[0]
	mul := func(a value, turnA bool, b value, turnB bool) value {
		return g.backprop.node(op, Attrs{"T": g.t, attrX: boolOf(turnA), attrY: boolOf(turnB)}, a, b)
	}
	var dx, dy value
	switch tx, ty := g.node.Attrs[attrX].GetB(), g.node.Attrs[attrY].GetB(); {
	case !tx && !ty:
		dx, dy = mul(dz, false, y, true), mul(x, true, dz, false)
	case !tx:
		dx, dy = mul(dz, false, y, false), mul(dz, true, x, false)
	case !ty:
		dx, dy = mul(y, false, dz, true), mul(x, false, dz, false)
	default:
		dx, dy = mul(y, true, dz, true), mul(dz, true, x, true)
	}
	if !broadcasts {
		return []value{dx, dy}, nil
	}
	batch := func(shape value) value {
		attrs := Attrs{"T": typeOf(tensor.Int32), "Index": typeOf(tensor.Int32)}
		return g.backprop.node("StridedSlice", attrs, shape, g.int(0, true), g.int(-2, true), g.int(1, true))
	}
	return g.unbroadcast(dx, dy, g.op("Shape", x), g.op("Shape", y), batch), nil
}
