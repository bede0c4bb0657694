package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

var stride = []string{"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}

func init() {
	register(map[string]unary{
		"Slice": func(g *call, x, y, dy op.Output) op.Output {
			t := g.x(1).DType().Base()
			after := g.sub(g.sub(g.shapeAs(x, t), g.shapeAs(y, t)), g.x(1))
			return g.op("Pad", dy, g.make("Pack", map[string]any{"axis": 1}, op.List{g.x(1), after}))
		},
		"StridedSlice": func(g *call, x, y, dy op.Output) op.Output {
			return g.make("StridedSliceGrad", g.attrs(stride...), g.shapeAs(x, g.x(1).DType().Base()), g.x(1), g.x(2), g.x(3), dy)
		},
		"GatherNd": func(g *call, x, y, dy op.Output) op.Output {
			return g.op("ScatterNd", g.x(1), dy, g.shapeAs(x, g.x(1).DType().Base()))
		},
		"ResourceGatherNd": func(g *call, x, y, dy op.Output) op.Output {
			t := g.x(1).DType().Base()
			return g.op("ScatterNd", g.x(1), dy, g.make("VariableShape", map[string]any{"out_type": t}, x))
		},
	}, one)
	register(map[string]func(g *call) []op.Output{
		"StridedSliceGrad": func(g *call) []op.Output {
			return []op.Output{none, none, none, none, g.make("StridedSlice", g.attrs(stride...), g.d(0), g.x(1), g.x(2), g.x(3))}
		},
		"TensorStridedSliceUpdate": func(g *call) []op.Output {
			dy := g.make("StridedSlice", g.attrs(stride...), g.d(0), g.x(1), g.x(2), g.x(3))
			dx := g.make("TensorStridedSliceUpdate", g.attrs(stride...), g.d(0), g.x(1), g.x(2), g.x(3), g.zeros(dy))
			value, _ := g.unbroadcast(g.x(4), dy, dy, none)
			return []op.Output{dx, none, none, none, value}
		},
		"ScatterNd": func(g *call) []op.Output { return []op.Output{none, g.op("GatherNd", g.d(0), g.x(0)), none} },
		"TensorScatterUpdate": func(g *call) []op.Output {
			return []op.Output{g.op("TensorScatterUpdate", g.d(0), g.x(1), g.zeros(g.x(2))), none, g.op("GatherNd", g.d(0), g.x(1))}
		},
		"TensorScatterAdd":        scatterAdd,
		"ScatterNdNonAliasingAdd": scatterAdd,
		"TensorScatterSub": func(g *call) []op.Output {
			return []op.Output{g.d(0), none, g.neg(g.op("GatherNd", g.d(0), g.x(1)))}
		},
		"TensorScatterMax": scatterExtreme,
		"TensorScatterMin": scatterExtreme,
		"DynamicPartition": func(g *call) []op.Output {
			shape := g.shape(g.x(1))
			order := g.reshape(g.span(g.int(0), g.op("Prod", shape, g.ints(0))), shape)
			places := g.node("DynamicPartition", g.attrs("num_partitions"), order, g.x(1)).OutputList(0)
			joined := g.make("ParallelDynamicStitch", nil, op.List(places), op.List(g.ds()))
			return []op.Output{g.reshapeLike(joined, g.x(0)), none}
		},
		"DynamicStitch":         unstitch,
		"ParallelDynamicStitch": unstitch,
	}, many)
	register(map[string]rule{
		"Gather":   func(g *call) ([]Gradient, error) { return []Gradient{g.rows(g.shape(g.x(0))), {}}, nil },
		"GatherV2": gatherRule,
		"ResourceGather": func(g *call) ([]Gradient, error) {
			if n := g.Attrs()["batch_dims"].GetI(); n != 0 {
				return nil, status.Unimplementedf("ResourceGather has a gradient for batch_dims 0 only, not %d", n)
			}
			return []Gradient{g.rows(g.make("VariableShape", nil, g.x(0))), {}}, nil
		},
	}, func(r rule) rule { return r })
}

// rows returns the sparse gradient of a tensor of the given shape that was read by rows.
func (g *call) rows(shape op.Output) Gradient {
	size := g.expand(g.op("Size", g.x(1)), 0)
	values := g.reshape(g.d(0), g.concat(0, size, g.from(shape, 1)))
	return Gradient{Values: values, Indices: g.reshape(g.x(1), size), Shape: shape}
}

func gatherRule(g *call) ([]Gradient, error) {
	x, indices := g.x(0), g.x(1)
	batch := g.Attrs()["batch_dims"].GetI()
	axis, static := known(g.x(2))
	if static && axis[0] == 0 && batch == 0 {
		return []Gradient{g.rows(g.shape(x)), {}, {}}, nil
	}
	if batch < 0 {
		rank := indices.Shape().Rank()
		if rank < 0 {
			return nil, status.Unimplementedf("GatherV2 with a negative batch_dims has a gradient only if the rank of the indices is known")
		}
		batch += int64(rank)
	}
	// Move the gathered axis behind the batch axes, and give each batch's rows their own indices. What remains is a sum by rows.
	b := g.int(int32(batch))
	rank := g.op("Rank", x)
	at := g.op("FloorMod", g.cast(g.x(2), tensor.Int32), rank)
	shape := g.shape(x)
	one := g.int(1)
	outer := g.span(g.int(0), b)
	middle := g.span(b, at)
	inner := g.span(g.add(at, one), rank)
	toFront := g.concat(0, outer, g.expand(at, 0), middle, inner)
	front := g.gather(shape, toFront)

	// In dy, the axes of the indices are in the place of the gathered axis: batch, middle, indices, inner.
	count := g.sub(g.op("Rank", indices), b)
	dy := g.d(0)
	last := g.op("Rank", dy)
	place := g.span(at, g.add(at, count))
	dyFront := g.op("Transpose", dy, g.concat(0, outer, place, middle, g.span(g.add(at, count), last)))
	tail := g.gather(shape, g.concat(0, middle, inner))
	values := g.reshape(dyFront, g.concat(0, g.expand(g.op("Size", indices), 0), tail))

	size := g.gather(shape, at)
	lots := g.op("Prod", g.gather(shape, outer), g.ints(0))
	perLot := g.reshape(g.cast(indices, tensor.Int64), g.concat(0, g.expand(lots, 0), g.ints(-1)))
	first := g.mul(g.span(g.int(0), lots), size)
	ids := g.reshape(g.add(perLot, g.cast(g.expand(first, 1), tensor.Int64)), g.ints(-1))
	sum := g.reshape(g.op("UnsortedSegmentSum", values, ids, g.mul(lots, size)), front)
	dx := g.op("Transpose", sum, g.op("InvertPermutation", toFront))
	return []Gradient{{Values: dx}, {}, {}}, nil
}

func scatterAdd(g *call) []op.Output {
	return []op.Output{g.d(0), none, g.op("GatherNd", g.d(0), g.x(1))}
}

// scatterExtreme divides the gradient among the elements equal to the result.
func scatterExtreme(g *call) []op.Output {
	x, indices, updates, y, dy := g.x(0), g.x(1), g.x(2), g.Output(0), g.d(0)
	t := dy.DType().Base()
	own := g.cast(g.op("Equal", x, y), t)
	theirs := g.cast(g.op("Equal", updates, g.op("GatherNd", y, indices)), t)
	share := g.div(dy, g.add(own, g.op("ScatterNd", indices, theirs, g.shapeAs(x, indices.DType().Base()))))
	return []op.Output{g.mul(share, own), none, g.mul(g.op("GatherNd", share, indices), theirs)}
}

func unstitch(g *call) []op.Output {
	n := len(g.Inputs()) / 2
	out := make([]op.Output, 2*n)
	for i := range n {
		out[n+i] = g.gather(g.d(0), g.x(i))
	}
	return out
}

func prevented(g *call) error {
	return status.Errorf(status.FailedPrecondition, "The gradient is explicitly disabled: %s", g.text("message"))
}
