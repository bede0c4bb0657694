package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// The gradient of a list of tensors is a list of their gradients.

func init() {
	register(map[string]func(g *call) []op.Output{
		"TensorListPushBack": func(g *call) []op.Output {
			o := g.node("TensorListPopBack", g.element(g.x(1)), g.d(0), g.shape(g.x(1)))
			return []op.Output{o.Output(0), o.Output(1)}
		},
		"TensorListPopBack": func(g *call) []op.Output {
			var list op.Output
			if g.dy[0].Connected() {
				list = g.d(0)
			} else {
				list = g.emptyLike(g.Output(0), g.Output(1))
			}
			return []op.Output{g.op("TensorListPushBack", list, g.d(1)), none}
		},
		"TensorListStack": func(g *call) []op.Output {
			return []op.Output{g.make("TensorListFromTensor", nil, g.d(0), g.elementShape(g.x(0))), none}
		},
		"TensorListFromTensor": func(g *call) []op.Output {
			return []op.Output{g.make("TensorListStack", g.element(g.x(0)), g.d(0), g.from(g.shape(g.x(0)), 1)), none}
		},
		"TensorListConcat":   func(g *call) []op.Output { return []op.Output{g.splitList()} },
		"TensorListConcatV2": func(g *call) []op.Output { return []op.Output{g.splitList(), none, none} },
		"TensorListSplit": func(g *call) []op.Output {
			shape := g.concat(0, g.ints(-1), g.from(g.shape(g.x(0)), 1))
			return []op.Output{g.make("TensorListConcatV2", g.element(g.x(0)), g.d(0), shape, g.x(2)), none, none}
		},
		"TensorListGetItem": func(g *call) []op.Output {
			list := g.emptyLike(g.x(0), g.d(0))
			return []op.Output{g.op("TensorListSetItem", list, g.x(1), g.d(0)), none, none}
		},
		"TensorListSetItem": func(g *call) []op.Output {
			list := g.op("TensorListSetItem", g.d(0), g.x(1), g.zeros(g.x(2)))
			if g.flag("resize_if_index_out_of_bounds") {
				list = g.op("TensorListResize", list, g.op("TensorListLength", g.x(0)))
			}
			return []op.Output{list, none, g.make("TensorListGetItem", g.element(g.x(2)), g.d(0), g.x(1), g.shape(g.x(2)))}
		},
		"TensorListResize": func(g *call) []op.Output {
			return []op.Output{g.op("TensorListResize", g.d(0), g.op("TensorListLength", g.x(0))), none}
		},
		"TensorListGather": func(g *call) []op.Output {
			// An element that was read twice gets the sum, twice.
			list, length := g.emptyLike(g.x(0), g.d(0)), g.op("TensorListLength", g.x(0))
			rows := g.gather(g.op("UnsortedSegmentSum", g.d(0), g.x(1), length), g.x(1))
			return []op.Output{g.op("TensorListScatterIntoExistingList", list, rows, g.x(1)), none, none}
		},
		"TensorListScatter":   func(g *call) []op.Output { return []op.Output{g.gatherList(g.x(0), g.x(1)), none, none} },
		"TensorListScatterV2": func(g *call) []op.Output { return []op.Output{g.gatherList(g.x(0), g.x(1)), none, none, none} },
		"TensorListScatterIntoExistingList": func(g *call) []op.Output {
			list := g.op("TensorListScatterIntoExistingList", g.d(0), g.zeros(g.x(1)), g.x(2))
			return []op.Output{list, g.gatherList(g.x(1), g.x(2)), none}
		},
	}, many)
}

func (g *call) element(of op.Output) map[string]any {
	return map[string]any{"element_dtype": of.DType().Base()}
}

func (g *call) elementShape(list op.Output) op.Output {
	return g.make("TensorListElementShape", map[string]any{"shape_type": tensor.Int32}, list)
}

// emptyLike returns a list as long as another, with unset elements, which count as zeros. The elements are like element.
func (g *call) emptyLike(list, element op.Output) op.Output {
	return g.make("TensorListReserve", g.element(element), g.elementShape(list), g.op("TensorListLength", list))
}

func (g *call) gatherList(like, indices op.Output) op.Output {
	return g.make("TensorListGather", g.element(like), g.d(0), indices, g.from(g.shape(like), 1))
}

func (g *call) splitList() op.Output {
	return g.op("TensorListSplit", g.d(0), g.elementShape(g.x(0)), g.Output(1))
}
