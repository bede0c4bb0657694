package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]func(g *call) []op.Output{
		"SparseReorder": func(g *call) []op.Output {
			count := g.at(g.shape(g.x(0)), 0)
			order := g.node("SparseReorder", nil, g.x(0), g.span(g.int(0), count), g.x(2)).Output(1)
			return []op.Output{none, g.gather(g.d(1), g.op("InvertPermutation", order)), none}
		},
		"SparseAdd": func(g *call) []op.Output {
			grad := g.node("SparseAddGrad", nil, g.d(1), g.x(0), g.x(3), g.Output(0))
			return []op.Output{none, grad.Output(0), none, none, grad.Output(1), none, none}
		},
		"SparseTensorDenseAdd": func(g *call) []op.Output {
			return []op.Output{none, g.op("GatherNd", g.d(0), g.x(0)), none, g.d(0)}
		},
		"SparseTensorDenseMatMul": sparseProductGrad,
		"SparseReduceSum": func(g *call) []op.Output {
			kept := g.cast(g.keptOf(g.cast(g.x(2), tensor.Int32), g.x(3)), tensor.Int64)
			scale := g.op("FloorDiv", g.x(2), kept)
			return []op.Output{none, g.op("GatherNd", g.reshape(g.d(0), kept), g.op("FloorDiv", g.x(0), scale)), none, none}
		},
		"SparseDenseCwiseMul": func(g *call) []op.Output {
			there, dense := g.whereDense()
			return []op.Output{none, g.mul(g.d(0), there), none, dense(g.mul(g.d(0), g.x(1)))}
		},
		"SparseDenseCwiseDiv": func(g *call) []op.Output {
			there, dense := g.whereDense()
			return []op.Output{none, g.div(g.d(0), there), none, dense(g.mul(g.d(0), g.div(g.neg(g.x(1)), g.square(there))))}
		},
		"SparseSoftmax": func(g *call) []op.Output {
			y := g.Output(0)
			sum := g.make("SparseReduceSum", map[string]any{"keep_dims": true}, g.x(0), g.mul(y, g.d(0)), g.x(2), g.ints(-1))
			return []op.Output{none, g.mul(g.op("SparseDenseCwiseAdd", g.x(0), g.d(0), g.x(2), g.neg(sum)), y), none}
		},
		"SparseFillEmptyRows": func(g *call) []op.Output {
			dx := g.node("SparseFillEmptyRowsGrad", nil, g.Output(3), g.d(1))
			return []op.Output{none, dx.Output(0), none, dx.Output(1)}
		},
		"SparseSlice": func(g *call) []op.Output {
			return []op.Output{none, g.op("SparseSliceGrad", g.d(1), g.x(0), g.x(3), g.Output(0)), none, none, none}
		},
		"SparseToDense": func(g *call) []op.Output {
			// The indices may also be a vector or a scalar, and the values a single one for all.
			indices := g.reshape(g.x(0), g.make("Pack", nil, op.List{g.int(-1), g.op("Size", g.x(1))}))
			rows := g.op("GatherNd", g.d(0), indices)
			dx, _ := g.unbroadcast(g.x(2), rows, rows, none)
			return []op.Output{none, none, dx, g.sub(g.totalOf(g.d(0)), g.totalOf(rows))}
		},
		"RaggedTensorToSparse": func(g *call) []op.Output {
			out := make([]op.Output, len(g.Inputs()))
			last := len(out) - 1
			out[last] = g.reshapeLike(g.d(1), g.x(last))
			return out
		},
		"RaggedTensorToVariant": func(g *call) []op.Output {
			values := g.Inputs()[len(g.Inputs())-1]
			splits := g.longs()
			if n := len(g.Inputs()); n > 1 {
				splits = g.x(n - 2)
			}
			attrs := g.attrs("Tvalues")
			out := make([]op.Output, len(g.Inputs()))
			out[len(out)-1] = g.make("RaggedTensorToVariantGradient", attrs, g.d(0), splits, g.shape(values))
			return out
		},
		"RandomGamma":            func(g *call) []op.Output { return gammaSample(g, 1, g.at(g.shape(g.x(0)), 0)) },
		"StatelessRandomGammaV2": func(g *call) []op.Output { return statelessGammaSample(g, 2) },
		"StatelessRandomGammaV3": func(g *call) []op.Output { return statelessGammaSample(g, 4) },
		"RaggedTensorFromVariant": func(g *call) []op.Output {
			n := g.NumOutputs() - 1
			splits := make(op.List, n)
			for i := range splits {
				splits[i] = g.Output(i)
			}
			batched := g.x(0).Shape().Rank() == 1 || !g.x(0).Shape().HasRank() && n > 0
			return []op.Output{g.make("RaggedTensorToVariant", map[string]any{"batched_input": batched}, splits, g.d(n))}
		},
		"RaggedTensorToTensor": raggedToTensor,
		"OptionalFromValue": func(g *call) []op.Output {
			types := make([]tensor.DType, len(g.Inputs()))
			shapes := make([]shape.Shape, len(g.Inputs()))
			for i, x := range g.Inputs() {
				types[i], shapes[i] = x.DType().Base(), x.Shape()
			}
			return g.node("OptionalGetValue", map[string]any{"output_types": types, "output_shapes": shapes}, g.d(0)).OutputList(0)
		},
		"OptionalGetValue": func(g *call) []op.Output {
			return []op.Output{g.make("OptionalFromValue", nil, op.List(g.ds()))}
		},
	}, many)
}

// gammaSample returns the gradient for the alpha at input i of a sample that has outer more axes than alpha.
func gammaSample(g *call, i int, outer op.Output) []op.Output {
	ones := g.fill(g.expand(outer, 0), g.int(1))
	alpha := g.reshape(g.x(i), g.concat(0, ones, g.shape(g.x(i))))
	slope := g.op("RandomGammaGrad", alpha, g.Output(0))
	out := make([]op.Output, i+1)
	out[i] = g.total(g.mul(g.d(0), slope), g.span(g.int(0), outer), false)
	return out
}

// statelessGammaSample is gammaSample for ops whose input 0 is the sample's whole shape.
func statelessGammaSample(g *call, i int) []op.Output {
	return gammaSample(g, i, g.op("Sub", g.at(g.shape(g.x(0)), 0), g.op("Rank", g.x(i))))
}

// raggedToTensor passes the gradients of elements that came from values back to these, and sums those of the default.
func raggedToTensor(g *call) []op.Output {
	values, preset, dy := g.x(1), g.x(2), g.d(0)
	types := g.Attrs()["row_partition_types"].GetList().GetS()
	rank := int32(0)
	for _, t := range types {
		if string(t) != "FIRST_DIM_SIZE" {
			rank++
		}
	}
	// The same op, applied to row numbers instead of values, finds where each element came from.
	size := g.at(g.shape(values), 0)
	outer := g.op("Slice", g.shape(dy), g.ints(0), g.ints(1+rank))
	from := g.make("RaggedTensorToTensor", g.attrs("row_partition_types"), outer, g.span(g.int(0), size), g.int(-1), op.List(g.Input(3)))
	there := g.op("NotEqual", from, g.int(-1))

	elements := g.from(g.shape(values), 1)
	rows := g.reshape(dy, g.concat(0, g.ints(-1), elements))
	flat := func(v op.Output) op.Output { return g.reshape(v, g.ints(-1)) }
	// Negative numbers belong to no segment.
	dvalues := g.op("UnsortedSegmentSum", rows, flat(from), size)
	column := g.reshape(there, g.concat(0, g.shape(there), g.fill(g.shape(elements), g.int(1))))
	ddefault, _ := g.unbroadcast(preset, dy, g.where(column, g.number(dy, 0), dy), none)
	out := make([]op.Output, len(g.Inputs()))
	out[1], out[2] = dvalues, ddefault
	return out
}

// sparseProductGrad computes, for the gradient of the values, only the products of those rows and columns that meet at an element.
func sparseProductGrad(g *call) []op.Output {
	indices, values, shape, b := g.x(0), g.x(1), g.x(2), g.x(3)
	adjointA, adjointB := g.flag("adjoint_a"), g.flag("adjoint_b")
	db := g.make("SparseTensorDenseMatMul", map[string]any{"adjoint_a": !adjointA}, indices, values, shape, g.d(0))
	if adjointB {
		db = g.adjoint(db)
	}
	rows, cols := g.index(indices, -1, 0, 1), g.index(indices, -1, 1, 0)
	if adjointA {
		rows, cols = cols, rows
	}
	// The product of row r of the gradient and row c of the matrix that is conjugated below: b, or its transpose.
	of := b
	if adjointB {
		of = g.op("Transpose", b, g.ints(1, 0))
	}
	left, right := g.gather(g.d(0), g.reshape(rows, g.ints(-1))), g.gather(of, g.reshape(cols, g.ints(-1)))
	if !adjointB {
		right = g.conj(right)
	}
	dot := g.total(g.mul(left, right), g.ints(-1), false)
	if adjointA {
		dot = g.conj(dot)
	}
	return []op.Output{none, dot, none, db}
}

// whereDense returns the elements of the dense tensor of SparseDenseCwiseMul or Div at the positions of the sparse tensor's values, and a
// function that builds the dense tensor's gradient from the gradients of these elements.
func (g *call) whereDense() (there op.Output, dense func(d op.Output) op.Output) {
	indices, y := g.x(0), g.x(3)
	shape := g.shapeAs(y, tensor.Int64)
	added := g.expand(g.sub(g.op("Size", g.x(2)), g.op("Size", shape)), 0)
	whole := g.concat(0, g.fill(added, g.long(1)), shape)
	places := g.op("FloorDiv", indices, g.op("FloorDiv", g.x(2), whole))
	places = g.op("Slice", places, g.concat(0, g.ints(0), added), g.ints(-1, -1))
	return g.op("GatherNd", y, places), func(d op.Output) op.Output {
		return g.op("SparseTensorDenseAdd", places, d, shape, g.zeros(y))
	}
}
