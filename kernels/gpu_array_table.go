package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// The GPU's rows of ops that rearrange arrays: the CPU's, since these know where tensors lie. Types are
// all whose elements have a size; of int32 those tensors that TensorFlow keeps on the host have rows in
// gpu_host.go.

// movedTypes are those types with int32.
var movedTypes = append(slices.Clone(variableTypes), tensor.Int32)

// moving shares rows for types, with inputs that lie on the host.
func moving(attr string, types []tensor.DType, hostInputs []string, ops ...string) {
	share(sharing{types: map[string][]tensor.DType{attr: types}, hostInputs: hostInputs}, ops...)
}

func init() {
	moving("T", variableTypes, names("concat_dim"), "Concat")
	moving("T", variableTypes, names("axis"), "ConcatV2", "ReverseV2")
	moving("T", variableTypes, nil, "Pack", "Unpack")
	moving("T", variableTypes, names("size_splits", "split_dim"), "SplitV")
	moving("T", variableTypes, names("begin", "size"), "Slice")
	moving("T", variableTypes, names("begin", "end", "strides"), "StridedSlice", "TensorStridedSliceUpdate")
	moving("T", variableTypes, names("shape", "begin", "end", "strides"), "StridedSliceGrad")
	moving("T", variableTypes, names("paddings"), "Pad", "PadV2")
	moving("T", variableTypes, names("dims"), "Reverse")
	moving("T", variableTypes, names("shape"), "BroadcastTo")
	moving("T", variableTypes, nil, "TensorScatterUpdate")
	adding := slices.DeleteFunc(slices.Clone(scattered), func(d tensor.DType) bool { return d == tensor.Int32 })
	moving("T", append(slices.Clone(adding), tensor.Bool), names("shape"), "ScatterNd")
	moving("T", adding, nil, "ScatterNdNonAliasingAdd", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMin", "TensorScatterMax")

	moving("T", movedTypes, names("split_dim"), "Split")
	moving("T", movedTypes, names("perm"), "Transpose")
	real := slices.DeleteFunc(slices.Clone(movedTypes), tensor.DType.IsComplex)
	moving("T", real, names("perm"), "ConjugateTranspose")
	moving("T", floatTypes, names("paddings"), "MirrorPadGrad")
	moving("T", movedTypes, names("paddings"), "MirrorPad", "SpaceToBatch")
	moving("T", movedTypes, names("block_shape", "paddings"), "SpaceToBatchND")
	moving("T", movedTypes, names("crops"), "BatchToSpace")
	moving("T", movedTypes, names("block_shape", "crops"), "BatchToSpaceND")
	moving("T", movedTypes, nil, "SpaceToDepth", "DepthToSpace", "ReverseSequence", "Diag", "DiagPart", "MatrixDiag", "MatrixDiagPart", "MatrixSetDiag")
	moving("T", movedTypes, names("multiples"), "Tile")
	moving("T", movedTypes, names("shift", "axis"), "Roll")
	moving("T", movedTypes, names("depth"), "OneHot")
	moving("T", movedTypes, names("num_lower", "num_upper"), "MatrixBandPart")
	moving("T", movedTypes, names("k", "num_rows", "num_cols", "padding_value"), "MatrixDiagV2", "MatrixDiagV3")
	moving("T", movedTypes, names("k", "padding_value"), "MatrixDiagPartV2", "MatrixDiagPartV3")
	moving("T", movedTypes, names("k"), "MatrixSetDiagV2", "MatrixSetDiagV3")
	moving("dtype", movedTypes, names("shape"), "Empty")
	moving("Tparams", movedTypes, nil, "Gather", "GatherNd")
	moving("Tparams", movedTypes, names("axis"), "GatherV2")
	// The sizes of what comes out follow from integers, which are read on the host.
	moving("T", movedTypes, names("indices"), "DynamicStitch", "ParallelDynamicStitch")
	moving("T", movedTypes, names("partitions"), "DynamicPartition")
}
