package array

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

func addFillGPU(table *kernels.Table) {
	for d := range launch.Suffixes {
		if d == tensor.Int32 { // stays on the host
			continue
		}
		fill := elementwise.RowOnGPU("Fill", "T", d, kernels.Func(gpuFill))
		fill.HostInputs = []string{"dims"}
		table.Add(fill, elementwise.RowOnGPU("ZerosLike", "T", d, kernels.Func(gpuZerosLike)), elementwise.RowOnGPU("OnesLike", "T", d, gpuOnesLike(d)))
	}
}

func addMovesGPU(table *kernels.Table) {
	table.Share(kernels.Sharing{}, "Bitcast")
	table.Passing("T", nil, nil, "Squeeze", "EnsureShape")
	table.Passing("T", []string{"shape"}, nil, "Reshape")
	table.Passing("T", []string{"dim"}, nil, "ExpandDims")
	table.Passing("T", nil, []string{"output"}, "Shape", "ShapeN", "Size", "Rank")

	// Shapes, sizes and axes stay on the host.
	table.OnHost("", nil, "BroadcastArgs", "BroadcastGradientArgs", "ConcatOffset", "LinSpace")
	table.OnHost("Tidx", dtypes.Int32, "Range")
	table.OnHost("T", []tensor.DType{tensor.Int32, tensor.Int64}, "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
	table.OnHost("T", dtypes.Int32,
		"InvertPermutation", "BroadcastTo", "Fill", "OnesLike", "ZerosLike", "Concat", "ConcatV2", "Pack", "Unpack", "SplitV", "Pad", "PadV2",
		"Reverse", "ReverseV2", "Slice", "StridedSlice", "StridedSliceGrad", "TensorStridedSliceUpdate", "Where",
		"ScatterNd", "ScatterNdNonAliasingAdd", "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")

	table.Moving("T", dtypes.Variables, []string{"concat_dim"}, "Concat")
	table.Moving("T", dtypes.Variables, []string{"axis"}, "ConcatV2", "ReverseV2")
	table.Moving("T", dtypes.Variables, nil, "Pack", "Unpack")
	table.Moving("T", dtypes.Variables, []string{"size_splits", "split_dim"}, "SplitV")
	table.Moving("T", dtypes.Variables, []string{"begin", "size"}, "Slice")
	table.Moving("T", dtypes.Variables, []string{"begin", "end", "strides"}, "StridedSlice", "TensorStridedSliceUpdate")
	table.Moving("T", dtypes.Variables, []string{"shape", "begin", "end", "strides"}, "StridedSliceGrad")
	table.Moving("T", dtypes.Variables, []string{"paddings"}, "Pad", "PadV2")
	table.Moving("T", dtypes.Variables, []string{"dims"}, "Reverse")
	table.Moving("T", dtypes.Variables, []string{"shape"}, "BroadcastTo")
	table.Moving("T", dtypes.Variables, nil, "TensorScatterUpdate")
	adding := slices.DeleteFunc(slices.Clone(update.Scattered), func(d tensor.DType) bool { return d == tensor.Int32 })
	table.Moving("T", append(slices.Clone(adding), tensor.Bool), []string{"shape"}, "ScatterNd")
	table.Moving("T", adding, nil, "ScatterNdNonAliasingAdd", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")

	table.Moving("T", dtypes.Moved, []string{"split_dim"}, "Split")
	table.Moving("T", dtypes.Moved, []string{"perm"}, "Transpose")
	real := slices.DeleteFunc(slices.Clone(dtypes.Moved), tensor.DType.IsComplex)
	table.Moving("T", real, []string{"perm"}, "ConjugateTranspose")
	table.Moving("T", dtypes.Floats, []string{"paddings"}, "MirrorPadGrad")
	table.Moving("T", dtypes.Moved, []string{"paddings"}, "MirrorPad", "SpaceToBatch")
	table.Moving("T", dtypes.Moved, []string{"block_shape", "paddings"}, "SpaceToBatchND")
	table.Moving("T", dtypes.Moved, []string{"crops"}, "BatchToSpace")
	table.Moving("T", dtypes.Moved, []string{"block_shape", "crops"}, "BatchToSpaceND")
	table.Moving("T", dtypes.Moved, nil, "SpaceToDepth", "DepthToSpace", "ReverseSequence", "Diag", "DiagPart", "MatrixDiag", "MatrixDiagPart", "MatrixSetDiag")
	table.Moving("T", dtypes.Moved, []string{"multiples"}, "Tile")
	table.Moving("T", dtypes.Moved, []string{"shift", "axis"}, "Roll")
	table.Moving("T", dtypes.Moved, []string{"depth"}, "OneHot")
	table.Moving("T", dtypes.Moved, []string{"num_lower", "num_upper"}, "MatrixBandPart")
	table.Moving("T", dtypes.Moved, []string{"k", "num_rows", "num_cols", "padding_value"}, "MatrixDiagV2", "MatrixDiagV3")
	table.Moving("T", dtypes.Moved, []string{"k", "padding_value"}, "MatrixDiagPartV2", "MatrixDiagPartV3")
	table.Moving("T", dtypes.Moved, []string{"k"}, "MatrixSetDiagV2", "MatrixSetDiagV3")
	table.Moving("dtype", dtypes.Moved, []string{"shape"}, "Empty")
	table.Moving("Tparams", dtypes.Moved, nil, "Gather", "GatherNd")
	table.Moving("Tparams", dtypes.Moved, []string{"axis"}, "GatherV2")
	// The output sizes depend on integers, which are read on the host.
	table.Moving("T", dtypes.Moved, []string{"indices"}, "DynamicStitch", "ParallelDynamicStitch")
	table.Moving("T", dtypes.Moved, []string{"partitions"}, "DynamicPartition")

	// Rows of variables. Several updates of one element apply in any order, and indices out of range are ignored, as in TensorFlow's GPU
	// kernels.
	table.Share(kernels.Sharing{Types: map[string][]tensor.DType{"dtype": dtypes.Variables}}, "ResourceGather", "ResourceGatherNd")
	table.Moving("T", dtypes.Variables, nil, "ScatterNdUpdate", "ResourceScatterNdUpdate")
	table.Moving("T", adding, nil, "ScatterNdAdd", "ScatterNdSub", "ScatterNdMin", "ScatterNdMax",
		"ResourceScatterNdAdd", "ResourceScatterNdSub", "ResourceScatterNdMin", "ResourceScatterNdMax")
	table.Moving("T", dtypes.Variables, []string{"begin", "end", "strides"}, "StridedSliceAssign", "ResourceStridedSliceAssign")
}
