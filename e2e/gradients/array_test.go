package gradients

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

func tensorShape(sizes ...int64) shape.Shape { return shape.Of(sizes...) }

// matrix returns a constant int32 matrix.
func matrix(rows, columns int64, v ...float64) input {
	i := ints(v...)
	i.shape = tensor.Shape{rows, columns}
	return i
}

var arrayCases = slices.Concat([]gradCase{
	call("Identity", nil, in(2)), call("EnsureShape", attrs{"shape": shape.Unknown()}, in(2)),
	call("PlaceholderWithDefault", attrs{"shape": shape.Unknown()}, in(2)),
	call("CheckNumerics", attrs{"message": "m"}, in(2)), call("CheckNumericsV2", attrs{"message": "m"}, in(2)),
	call("Reshape", nil, in(2, 3), ints(3, 2)), call("ExpandDims", nil, in(2, 3), scalar(1)), call("Squeeze", nil, in(1, 3, 1)),
	call("Transpose", nil, in(2, 3, 2), ints(2, 0, 1)), call("ConjugateTranspose", nil, in(2, 3).of(tensor.Complex128), ints(1, 0)),
	call("Diag", nil, in(3)), call("DiagPart", nil, in(2, 3, 2, 3)),
	call("Reverse", nil, in(2, 3), in(2).of(tensor.Bool).with(0, 1).fixed()), call("ReverseV2", nil, in(2, 3), ints(-1)),
	call("ReverseSequence", attrs{"seq_dim": 1, "batch_dim": 0}, in(2, 4), longs(2, 3)),
	call("Roll", nil, in(2, 4), ints(1, 2), ints(0, 1)),
	call("Tile", nil, in(2, 3), ints(2, 1)), call("Tile", nil, in(3), longs(3)),
	call("BroadcastTo", nil, in(2, 1), ints(3, 2, 2)), call("BroadcastTo", nil, in(), ints(2)),
	call("Pad", nil, in(2, 3), matrix(2, 2, 1, 0, 2, 1)), call("PadV2", nil, in(2, 3), matrix(2, 2, 1, 0, 2, 1), number(7).fixed()),
	call("PadV2", nil, in(2, 3), matrix(2, 2, 1, 0, 2, 1), number(7)),
	call("MirrorPad", attrs{"mode": "REFLECT"}, in(2, 3), matrix(2, 2, 1, 0, 2, 1)), call("MirrorPad", attrs{"mode": "SYMMETRIC"}, in(2, 3), matrix(2, 2, 1, 2, 2, 1)),
	call("MirrorPadGrad", attrs{"mode": "REFLECT"}, in(3, 6), matrix(2, 2, 1, 0, 2, 1)),
	call("Fill", nil, ints(2, 3), in()),
	list("Pack", attrs{"axis": 1}, in(2, 3), in(2, 3)), list("IdentityN", nil, in(2), in(3)),
	call("Unpack", attrs{"num": 3, "axis": -1}, in(2, 3)),
	concat("ConcatV2", 1), concat("ConcatV2", -1), concat("Concat", 1),
	call("Split", attrs{"num_split": 2}, scalar(1), in(2, 4)), call("SplitV", attrs{"num_split": 2}, in(2, 4), ints(1, 3), scalar(-1)),
	call("MatrixDiag", nil, in(2, 3)), call("MatrixDiagPart", nil, in(2, 3, 3)), call("MatrixDiagPart", nil, in(2, 3)),
	call("MatrixSetDiag", nil, in(2, 2, 3), in(2, 2)),
	call("MatrixBandPart", nil, in(2, 3, 3), in().of(tensor.Int64).with(1).fixed(), in().of(tensor.Int64).with(0).fixed()),
	call("Slice", nil, in(3, 4), ints(1, 0), ints(2, 3)), call("Slice", nil, in(3, 4), longs(1, 2), longs(-1, 1)),
	call("StridedSlice", attrs{"shrink_axis_mask": 1, "end_mask": 2}, in(3, 5), ints(1, 1), ints(2, 0), ints(1, 2)),
	call("StridedSlice", attrs{"ellipsis_mask": 1, "new_axis_mask": 2}, in(3, 5), longs(0, 0, -1), longs(0, 0, -4), longs(1, 1, -1)),
	call("StridedSliceGrad", attrs{}, ints(3, 5), ints(0, 1), ints(2, 5), ints(1, 2), in(2, 2)),
	call("TensorStridedSliceUpdate", attrs{}, in(3, 5), ints(0, 1), ints(2, 5), ints(1, 2), in(2, 2)),
	call("TensorStridedSliceUpdate", attrs{}, in(3, 5), ints(0, 1), ints(2, 5), ints(1, 2), in(2)),
	{name: "Gather", sparse: true, in: []input{in(4, 2), matrix(2, 2, 1, 3, 1, 0)}, f: one("Gather", nil)},
	{name: "GatherV2", sparse: true, in: []input{in(4, 2), ints(1, 3, 1), scalar(0)}, f: one("GatherV2", nil)},
	{name: "GatherV2", sparse: true, in: []input{in(4), longs(1, 3, 1), scalar(0)}, f: one("GatherV2", nil)},
	call("GatherV2", nil, in(2, 4, 3), ints(1, 3, 1), scalar(1)), call("GatherV2", nil, in(2, 4, 3), matrix(2, 2, 1, 0, 2, 2), scalar(-1)),
	call("GatherV2", attrs{"batch_dims": 1}, in(2, 4, 3), matrix(2, 3, 1, 3, 1, 0, 0, 2), scalar(1)),
	call("GatherV2", attrs{"batch_dims": 1}, in(2, 3, 4), matrix(2, 2, 1, 3, 1, 0), scalar(2)),
	call("GatherV2", attrs{"batch_dims": 1}, in(2, 4), ints(1, 3), scalar(1)),
	call("GatherV2", attrs{"batch_dims": -1}, in(2, 4), matrix(2, 2, 1, 3, 1, 0), scalar(1)),
	call("GatherNd", nil, in(3, 4), matrix(3, 2, 0, 1, 2, 3, 0, 1)), call("GatherNd", nil, in(3, 4), matrix(2, 1, 2, 2)),
	call("ScatterNd", nil, matrix(3, 1, 0, 2, 0), in(3, 2), ints(4, 2)),
	call("TensorScatterUpdate", nil, in(4, 2), matrix(2, 1, 0, 2), in(2, 2)), call("TensorScatterAdd", nil, in(4, 2), matrix(2, 1, 0, 0), in(2, 2)),
	call("TensorScatterSub", nil, in(4, 2), matrix(2, 1, 0, 0), in(2, 2)), call("ScatterNdNonAliasingAdd", nil, in(4, 2), matrix(2, 1, 0, 0), in(2, 2)),
	call("TensorScatterMax", nil, in(4, 2).apart(), matrix(3, 1, 0, 2, 0), in(3, 2).between(-2, 2).apart()),
	call("TensorScatterMin", nil, in(4, 2).apart(), matrix(3, 1, 0, 2, 0), in(3, 2).between(-2, 2).apart()),
	call("DynamicPartition", attrs{"num_partitions": 3}, in(4, 2), ints(0, 2, 0, 1)),
	call("DynamicPartition", attrs{"num_partitions": 2}, in(2, 2), matrix(2, 2, 0, 1, 1, 0)),
	stitch("DynamicStitch"), stitch("ParallelDynamicStitch"),
	call("SpaceToBatch", attrs{"block_size": 2}, in(1, 2, 2, 1), matrix(2, 2, 0, 0, 1, 1)), call("BatchToSpace", attrs{"block_size": 2}, in(4, 2, 1, 1), matrix(2, 2, 1, 0, 0, 0)),
	call("SpaceToBatchND", nil, in(1, 4, 2), ints(2), matrix(1, 2, 0, 2)), call("BatchToSpaceND", nil, in(2, 3, 2), ints(2), matrix(1, 2, 1, 0)),
	call("SpaceToDepth", attrs{"block_size": 2}, in(1, 2, 4, 1)), call("DepthToSpace", attrs{"block_size": 2}, in(1, 1, 2, 4)),
}, diagonals(), segments())

// one returns a function of all outputs of an op whose arguments are single tensors.
func one(name string, a attrs) func(s *op.Scope, x []op.Output) []op.Output { return call(name, a).f }

func concat(name string, axis float64) gradCase {
	a, b, c := in(2, 1), in(2, 3), in(2, 2)
	if name == "Concat" {
		return gradCase{name: name, in: []input{scalar(axis), a, b, c}, f: func(s *op.Scope, x []op.Output) []op.Output {
			return floats(node(s, name, nil, x[0], op.List(x[1:])))
		}}
	}
	return gradCase{name: name, in: []input{a, b, c, scalar(axis)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return floats(node(s, name, nil, op.List(x[:3]), x[3]))
	}}
}

func stitch(name string) gradCase {
	return gradCase{name: name, in: []input{ints(0, 2), matrix(2, 2, 1, 3, 4, 5), in(2, 2), in(2, 2, 2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return floats(node(s, name, nil, op.List(x[:2]), op.List(x[2:])))
	}}
}

// diagonals returns cases of the ops that take several diagonals of a matrix, aligned in every way.
func diagonals() (out []gradCase) {
	k, zero := ints(-1, 1), number(0.5).fixed()
	free := scalar(-1)
	out = append(out,
		call("MatrixDiagV2", nil, in(2, 3, 3), k, free, free, zero), call("MatrixDiagPartV2", nil, in(2, 3, 3), k, zero),
		call("MatrixSetDiagV2", nil, in(2, 3, 3), in(2, 3, 3), k), call("MatrixSetDiagV2", nil, in(3, 3), in(2), ints(1)))
	for _, align := range []string{"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} {
		a := attrs{"align": align}
		out = append(out, call("MatrixDiagV3", a, in(3, 3), k, free, free, zero), call("MatrixDiagPartV3", a, in(3, 4), k, zero),
			call("MatrixSetDiagV3", a, in(3, 3), in(3, 3), k))
	}
	return out
}

func segments() (out []gradCase) {
	rising, mixed := ints(0, 0, 2, 2, 2), ints(2, 0, -1, 0, 2)
	for _, name := range []string{"Sum", "Mean", "Max", "Min", "Prod"} {
		out = append(out, call("Segment"+name, nil, in(5, 2).apart(), rising))
		if name != "Mean" {
			out = append(out, call("UnsortedSegment"+name, nil, in(5, 2).apart(), mixed, scalar(4)))
		}
	}
	zeros := in(5).with(0, 2, 0, 3, 0)
	out = append(out, call("SegmentProd", nil, zeros, rising), call("UnsortedSegmentProd", nil, zeros, mixed, scalar(3)),
		call("UnsortedSegmentSum", nil, in(2, 2, 2), matrix(2, 2, 1, 0, -1, 1), scalar(2)))
	for _, name := range []string{"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"} {
		out = append(out, call(name, nil, in(4, 2), ints(0, 3, 1, 0), ints(0, 0, 1, 1)),
			call(name+"WithNumSegments", nil, in(4, 2), ints(0, 3, 1, 0), ints(0, 0, 2, 2), scalar(4)))
	}
	return out
}
