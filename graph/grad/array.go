package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

func passOn(g *call, x, y, dy op.Output) op.Output { return dy }

func reshapeBack(g *call, x, y, dy op.Output) op.Output { return g.reshapeLike(dy, x) }

func init() {
	register(map[string]unary{
		"PlaceholderWithDefault": passOn, "RefIdentity": passOn, "ReadVariableOp": passOn, "Print": passOn, "EnsureShape": passOn,
		"Reshape": reshapeBack, "ExpandDims": reshapeBack, "Squeeze": reshapeBack,
		"CheckNumerics": func(g *call, x, y, dy op.Output) op.Output {
			message := "Not a number (NaN) or infinity (Inf) values detected in gradient. " + g.text("message")
			return g.make("CheckNumerics", map[string]any{"message": message}, dy)
		},
		"CheckNumericsV2": func(g *call, x, y, dy op.Output) op.Output {
			message := "Not a number (NaN) or infinity (Inf) values detected in gradient. " + g.text("message")
			return g.make("CheckNumericsV2", map[string]any{"message": message}, dy)
		},
		"Diag":               func(g *call, x, y, dy op.Output) op.Output { return g.op("DiagPart", dy) },
		"DiagPart":           func(g *call, x, y, dy op.Output) op.Output { return g.op("Diag", dy) },
		"Transpose":          func(g *call, x, y, dy op.Output) op.Output { return g.op("Transpose", dy, g.inverse(1)) },
		"ConjugateTranspose": func(g *call, x, y, dy op.Output) op.Output { return g.op("ConjugateTranspose", dy, g.inverse(1)) },
		"Reverse":            func(g *call, x, y, dy op.Output) op.Output { return g.op("Reverse", dy, g.x(1)) },
		"ReverseV2":          func(g *call, x, y, dy op.Output) op.Output { return g.op("ReverseV2", dy, g.x(1)) },
		"ReverseSequence": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("ReverseSequence", g.attrs("seq_dim", "batch_dim"), dy, g.x(1))
		},
		"Roll": func(g *call, x, y, dy op.Output) op.Output { return g.op("Roll", dy, g.neg(g.x(1)), g.x(2)) },
		"SpaceToBatch": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("BatchToSpace", g.attrs("block_size"), dy, g.x(1))
		},
		"BatchToSpace": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("SpaceToBatch", g.attrs("block_size"), dy, g.x(1))
		},
		"SpaceToBatchND": func(g *call, x, y, dy op.Output) op.Output { return g.op("BatchToSpaceND", dy, g.x(1), g.x(2)) },
		"BatchToSpaceND": func(g *call, x, y, dy op.Output) op.Output { return g.op("SpaceToBatchND", dy, g.x(1), g.x(2)) },
		"SpaceToDepth": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("DepthToSpace", g.attrs("block_size", "data_format"), dy)
		},
		"DepthToSpace": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("SpaceToDepth", g.attrs("block_size", "data_format"), dy)
		},
		"Tile": func(g *call, x, y, dy op.Output) op.Output {
			t := g.x(1).DType().Base()
			pairs := g.make("Pack", map[string]any{"axis": 1}, op.List{g.x(1), g.shapeAs(x, t)})
			split := g.reshape(pairs, g.ints(-1))
			axes := g.op("Range", g.int(0), g.op("Size", split), g.int(2))
			return g.total(g.reshape(dy, split), axes, false)
		},
		"BroadcastTo": func(g *call, x, y, dy op.Output) op.Output {
			dx, _ := g.unbroadcast(x, y, dy, none)
			return dx
		},
		"Pad": unpad,
		"MirrorPad": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("MirrorPadGrad", g.attrs("mode"), dy, g.x(1))
		},
		"MirrorPadGrad": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("MirrorPad", g.attrs("mode"), dy, g.x(1))
		},
		"MatrixDiag": func(g *call, x, y, dy op.Output) op.Output { return g.op("MatrixDiagPart", dy) },
		"MatrixDiagV2": func(g *call, x, y, dy op.Output) op.Output {
			return g.op("MatrixDiagPartV2", dy, g.x(1), g.number(dy, 0))
		},
		"MatrixDiagV3": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("MatrixDiagPartV3", g.attrs("align"), dy, g.x(1), g.number(dy, 0))
		},
		"MatrixDiagPart": func(g *call, x, y, dy op.Output) op.Output { return g.op("MatrixSetDiag", g.zeros(x), dy) },
		"MatrixDiagPartV2": func(g *call, x, y, dy op.Output) op.Output {
			return g.op("MatrixSetDiagV2", g.zeros(x), dy, g.x(1))
		},
		"MatrixDiagPartV3": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("MatrixSetDiagV3", g.attrs("align"), g.zeros(x), dy, g.x(1))
		},
		"MatrixBandPart": func(g *call, x, y, dy op.Output) op.Output {
			return g.op("MatrixBandPart", dy, g.x(1), g.x(2))
		},
	}, one)
	register(map[string]func(g *call) []op.Output{
		"IdentityN": func(g *call) []op.Output { return g.ds() },
		"Fill":      func(g *call) []op.Output { return []op.Output{none, g.totalOf(g.d(0))} },
		"PadV2": func(g *call) []op.Output {
			dx := unpad(g, g.x(0), g.Output(0), g.d(0))
			return []op.Output{dx, none, g.sub(g.totalOf(g.d(0)), g.totalOf(dx))}
		},
		"Pack": func(g *call) []op.Output {
			n := len(g.Inputs())
			attrs := g.attrs("axis")
			attrs["num"] = n
			return g.node("Unpack", attrs, g.d(0)).OutputList(0)
		},
		"Unpack": func(g *call) []op.Output {
			return []op.Output{g.make("Pack", g.attrs("axis"), op.List(g.ds()))}
		},
		"Split": func(g *call) []op.Output { return []op.Output{none, g.make("ConcatV2", nil, op.List(g.ds()), g.x(0))} },
		"SplitV": func(g *call) []op.Output {
			return []op.Output{g.make("ConcatV2", nil, op.List(g.ds()), g.x(2)), none, none}
		},
		"MatrixSetDiag": func(g *call) []op.Output {
			return []op.Output{g.op("MatrixSetDiag", g.d(0), g.zeros(g.x(1))), g.op("MatrixDiagPart", g.d(0))}
		},
		"MatrixSetDiagV2": func(g *call) []op.Output {
			dx := g.op("MatrixSetDiagV2", g.d(0), g.zeros(g.x(1)), g.x(2))
			return []op.Output{dx, g.op("MatrixDiagPartV2", g.d(0), g.x(2), g.number(g.d(0), 0)), none}
		},
		"MatrixSetDiagV3": func(g *call) []op.Output {
			dx := g.make("MatrixSetDiagV3", g.attrs("align"), g.d(0), g.zeros(g.x(1)), g.x(2))
			return []op.Output{dx, g.make("MatrixDiagPartV3", g.attrs("align"), g.d(0), g.x(2), g.number(g.d(0), 0)), none}
		},
	}, many)
	register(map[string]rule{
		// Ops that only pass on a tensor also pass on rows.
		"Identity": func(g *call) ([]Gradient, error) { return g.dy, nil },
		"Concat":   func(g *call) ([]Gradient, error) { return g.split(g.x(0), g.Inputs()[1:], 0) },
		"ConcatV2": func(g *call) ([]Gradient, error) {
			last := len(g.Inputs()) - 1
			return g.split(g.x(last), g.Inputs()[:last], last)
		},
		"PreventGradient": func(g *call) ([]Gradient, error) { return nil, prevented(g) },
	}, func(r rule) rule { return r })
}

// inverse returns the inverse of the permutation in input i.
func (g *call) inverse(i int) op.Output { return g.op("InvertPermutation", g.x(i)) }

// totalOf sums all elements.
func (g *call) totalOf(x op.Output) op.Output {
	flat := g.reshape(x, g.ints(-1))
	return g.total(flat, g.ints(0), false)
}

func unpad(g *call, x, y, dy op.Output) op.Output {
	t := g.x(1).DType().Base()
	before := g.op("Slice", g.x(1), g.vector(t, 0, 0), g.vector(t, -1, 1))
	return g.op("Slice", dy, g.reshape(before, g.ints(-1)), g.shapeAs(x, t))
}

// split returns the part of the gradient for each of the concatenated inputs; axis is input axisAt.
func (g *call) split(axis op.Output, in []op.Output, axisAt int) ([]Gradient, error) {
	parts := make([]Gradient, 0, len(in)+1)
	dy := g.d(0)
	switch {
	case len(in) == 1:
		parts = append(parts, Gradient{Values: dy})
	default:
		rank := g.op("Rank", in[0])
		from := g.op("FloorMod", g.cast(axis, tensor.Int32), rank)
		var shapes op.List
		for _, x := range in {
			shapes = append(shapes, g.shape(x))
		}
		offsets := g.node("ConcatOffset", nil, from, shapes).OutputList(0)
		for i := range offsets {
			parts = append(parts, Gradient{Values: g.op("Slice", dy, offsets[i], shapes[i])})
		}
	}
	if axisAt == 0 {
		return append([]Gradient{{}}, parts...), nil
	}
	return append(parts, Gradient{}), nil
}
