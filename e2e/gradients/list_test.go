package gradients

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

var element = attrs{"element_dtype": tensor.Float64}

// listCases put a tensor into a list and take it out again, with all ops that do so.
var listCases = []gradCase{
	throughList("TensorListPushBack", func(s *op.Scope, x op.Output) []op.Output {
		list := node(s, "EmptyTensorList", element, int32Const(s, -1), int32Const(s, -1)).Output(0)
		for _, row := range node(s, "Unpack", attrs{"num": 3}, x).OutputList(0) {
			list = node(s, "TensorListPushBack", nil, list, row).Output(0)
		}
		popped := node(s, "TensorListPopBack", element, list, int32Const(s, -1))
		rest := node(s, "TensorListStack", element, popped.Output(0), int32Const(s, -1)).Output(0)
		return []op.Output{popped.Output(1), rest}
	}),
	throughList("TensorListPopBack", func(s *op.Scope, x op.Output) []op.Output {
		list := fromTensor(s, x) // the remaining list is not used
		return []op.Output{node(s, "TensorListPopBack", element, list, int32Const(s, -1)).Output(1)}
	}),
	throughList("TensorListGetItem", func(s *op.Scope, x op.Output) []op.Output {
		list := fromTensor(s, x)
		first := node(s, "TensorListGetItem", element, list, int32Const(s, 0), int32Const(s, -1)).Output(0)
		list = node(s, "TensorListSetItem", nil, list, int32Const(s, 1), first).Output(0)
		return []op.Output{node(s, "TensorListGather", element, list, vector(s, 0, 1, 1, 2), int32Const(s, -1)).Output(0)}
	}),
	throughList("TensorListSetItem", func(s *op.Scope, x op.Output) []op.Output {
		first := node(s, "TensorListGetItem", element, fromTensor(s, x), int32Const(s, 0), int32Const(s, -1)).Output(0)
		list := node(s, "TensorListSetItem", attrs{"resize_if_index_out_of_bounds": true}, fromTensor(s, x), int32Const(s, 3), first).Output(0)
		return []op.Output{node(s, "TensorListStack", element, list, int32Const(s, -1)).Output(0)}
	}),
	throughList("TensorListResize", func(s *op.Scope, x op.Output) []op.Output {
		list := node(s, "TensorListResize", nil, fromTensor(s, x), int32Const(s, 2)).Output(0)
		return []op.Output{node(s, "TensorListStack", element, list, int32Const(s, -1)).Output(0)}
	}),
	throughList("TensorListScatter", func(s *op.Scope, x op.Output) []op.Output {
		list := node(s, "TensorListScatter", nil, x, vector(s, 2, 0, 1), vector(s, 2)).Output(0)
		return []op.Output{node(s, "TensorListStack", element, list, int32Const(s, -1)).Output(0)}
	}),
	throughList("TensorListScatterV2", func(s *op.Scope, x op.Output) []op.Output {
		list := node(s, "TensorListScatterV2", nil, x, vector(s, 2, 0, 1), vector(s, 2), int32Const(s, 3)).Output(0)
		list = node(s, "TensorListScatterIntoExistingList", nil, list, x, vector(s, 0, 1, 2)).Output(0)
		return []op.Output{node(s, "TensorListStack", element, list, int32Const(s, -1)).Output(0)}
	}),
	throughList("TensorListConcatV2", func(s *op.Scope, x op.Output) []op.Output {
		lengths := node(s, "Cast", attrs{"DstT": tensor.Int64}, vector(s, 1, 2)).Output(0)
		list := node(s, "TensorListSplit", nil, x, vector(s, -1, 2), lengths).Output(0)
		none := node(s, "Cast", attrs{"DstT": tensor.Int64}, vector(s)).Output(0)
		return []op.Output{node(s, "TensorListConcatV2", element, list, vector(s, -1, 2), none).Output(0),
			node(s, "TensorListConcat", element, list).Output(0)}
	}),
	// A list that is read twice has two gradients, which are added.
	throughList("TensorListFromTensor", func(s *op.Scope, x op.Output) []op.Output {
		list := fromTensor(s, x)
		return []op.Output{node(s, "TensorListStack", element, list, int32Const(s, -1)).Output(0),
			node(s, "TensorListGetItem", element, list, int32Const(s, 1), int32Const(s, -1)).Output(0)}
	}),
}

func throughList(name string, f func(s *op.Scope, x op.Output) []op.Output) gradCase {
	return gradCase{name: name, in: []input{in(3, 2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return f(s, node(s, "Square", nil, x[0]).Output(0))
	}}
}

func vector(s *op.Scope, v ...int32) op.Output {
	return node(s, "Const", attrs{"dtype": tensor.Int32, "value": int32s(v...)}).Output(0)
}

func fromTensor(s *op.Scope, x op.Output) op.Output {
	return node(s, "TensorListFromTensor", nil, x, vector(s, 2)).Output(0)
}
