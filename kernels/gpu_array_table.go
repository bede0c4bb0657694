package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// The GPU's rows of ops that rearrange arrays: the CPU's, since these know where tensors lie. Types are
// all whose elements have a size; of int32 those tensors that TensorFlow keeps on the host have rows in
// a list of their own.

// movedTypes are those types with int32.
var movedTypes = append(slices.Clone(variableTypes), tensor.Int32)

// moving shares rows for types, with inputs that lie on the host.
func moving(attr string, types []tensor.DType, hostInputs []string, ops ...string) {
	share(sharing{types: map[string][]tensor.DType{attr: types}, hostInputs: hostInputs}, ops...)
}

func init() {
	share(sharing{}, "Bitcast")
	passing("T", nil, nil, "Squeeze", "EnsureShape")
	passing("T", []string{"shape"}, nil, "Reshape")
	passing("T", []string{"dim"}, nil, "ExpandDims")
	passing("T", nil, []string{"output"}, "Shape", "ShapeN", "Size", "Rank")

	// Shapes, sizes and axes are the host's.
	onHost("", nil, "BroadcastArgs", "BroadcastGradientArgs", "ConcatOffset", "LinSpace")
	onHost("Tidx", justInt32, "Range")
	onHost("T", []tensor.DType{tensor.Int32, tensor.Int64}, "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
	onHost("T", justInt32,
		"InvertPermutation", "BroadcastTo", "Fill", "OnesLike", "ZerosLike", "Concat", "ConcatV2", "Pack", "Unpack", "SplitV", "Pad", "PadV2",
		"Reverse", "ReverseV2", "Slice", "StridedSlice", "StridedSliceGrad", "TensorStridedSliceUpdate", "Where",
		"ScatterNd", "ScatterNdNonAliasingAdd", "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")

	moving("T", variableTypes, []string{"concat_dim"}, "Concat")
	moving("T", variableTypes, []string{"axis"}, "ConcatV2", "ReverseV2")
	moving("T", variableTypes, nil, "Pack", "Unpack")
	moving("T", variableTypes, []string{"size_splits", "split_dim"}, "SplitV")
	moving("T", variableTypes, []string{"begin", "size"}, "Slice")
	moving("T", variableTypes, []string{"begin", "end", "strides"}, "StridedSlice", "TensorStridedSliceUpdate")
	moving("T", variableTypes, []string{"shape", "begin", "end", "strides"}, "StridedSliceGrad")
	moving("T", variableTypes, []string{"paddings"}, "Pad", "PadV2")
	moving("T", variableTypes, []string{"dims"}, "Reverse")
	moving("T", variableTypes, []string{"shape"}, "BroadcastTo")
	moving("T", variableTypes, nil, "TensorScatterUpdate")
	adding := slices.DeleteFunc(slices.Clone(scattered), func(d tensor.DType) bool { return d == tensor.Int32 })
	moving("T", append(slices.Clone(adding), tensor.Bool), []string{"shape"}, "ScatterNd")
	moving("T", adding, nil, "ScatterNdNonAliasingAdd", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")

	moving("T", movedTypes, []string{"split_dim"}, "Split")
	moving("T", movedTypes, []string{"perm"}, "Transpose")
	real := slices.DeleteFunc(slices.Clone(movedTypes), tensor.DType.IsComplex)
	moving("T", real, []string{"perm"}, "ConjugateTranspose")
	moving("T", floatTypes, []string{"paddings"}, "MirrorPadGrad")
	moving("T", movedTypes, []string{"paddings"}, "MirrorPad", "SpaceToBatch")
	moving("T", movedTypes, []string{"block_shape", "paddings"}, "SpaceToBatchND")
	moving("T", movedTypes, []string{"crops"}, "BatchToSpace")
	moving("T", movedTypes, []string{"block_shape", "crops"}, "BatchToSpaceND")
	moving("T", movedTypes, nil, "SpaceToDepth", "DepthToSpace", "ReverseSequence", "Diag", "DiagPart", "MatrixDiag", "MatrixDiagPart", "MatrixSetDiag")
	moving("T", movedTypes, []string{"multiples"}, "Tile")
	moving("T", movedTypes, []string{"shift", "axis"}, "Roll")
	moving("T", movedTypes, []string{"depth"}, "OneHot")
	moving("T", movedTypes, []string{"num_lower", "num_upper"}, "MatrixBandPart")
	moving("T", movedTypes, []string{"k", "num_rows", "num_cols", "padding_value"}, "MatrixDiagV2", "MatrixDiagV3")
	moving("T", movedTypes, []string{"k", "padding_value"}, "MatrixDiagPartV2", "MatrixDiagPartV3")
	moving("T", movedTypes, []string{"k"}, "MatrixSetDiagV2", "MatrixSetDiagV3")
	moving("dtype", movedTypes, []string{"shape"}, "Empty")
	moving("Tparams", movedTypes, nil, "Gather", "GatherNd")
	moving("Tparams", movedTypes, []string{"axis"}, "GatherV2")
	// The sizes of what comes out follow from integers, which are read on the host.
	moving("T", movedTypes, []string{"indices"}, "DynamicStitch", "ParallelDynamicStitch")
	moving("T", movedTypes, []string{"partitions"}, "DynamicPartition")

	// Variables' rows. Several updates of one element come in any order, and indices that are out of range
	// are left out, as with TensorFlow's GPU kernels.
	share(sharing{types: map[string][]tensor.DType{"dtype": variableTypes}}, "ResourceGather", "ResourceGatherNd")
	moving("T", variableTypes, nil, "ScatterNdUpdate", "ResourceScatterNdUpdate")
	moving("T", adding, nil, "ScatterNdAdd", "ScatterNdSub", "ScatterNdMin", "ScatterNdMax",
		"ResourceScatterNdAdd", "ResourceScatterNdSub", "ResourceScatterNdMin", "ResourceScatterNdMax")
	moving("T", variableTypes, []string{"begin", "end", "strides"}, "StridedSliceAssign", "ResourceStridedSliceAssign")
}
