package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// The ops that make, look at and rearrange arrays.
func init() {
	Register(
		Def{Op: "Shape", New: newShape},
		Def{Op: "ShapeN", New: newShape},
		Def{Op: "Size", New: newSize},
		Def{Op: "Rank", New: always(rank)},
		Def{Op: "Reshape", New: always(reshape)},
		Def{Op: "ExpandDims", New: always(expandDims)},
		Def{Op: "Squeeze", New: newSqueeze},
		Def{Op: "EnsureShape", New: newEnsureShape},
		Def{Op: "Bitcast", New: newBitcast},
		Def{Op: "InvertPermutation", New: always(invertPermutation)},
		Def{Op: "BroadcastArgs", New: always(broadcastArgs)},
		Def{Op: "BroadcastGradientArgs", New: always(broadcastGradientArgs)},

		Def{Op: "Fill", New: always(runFill)},
		Def{Op: "ZerosLike", New: always(zerosLike)},
		Def{Op: "OnesLike", New: newOnesLike},
		Def{Op: "Empty", New: newEmpty},
		Def{Op: "Range", Types: only("Tidx", tensor.Float32), New: always(runRange[float32])},
		Def{Op: "Range", Types: only("Tidx", tensor.Float64), New: always(runRange[float64])},
		Def{Op: "Range", Types: only("Tidx", tensor.Float16), New: always(rangeHalf(float16.float, toFloat16))},
		Def{Op: "Range", Types: only("Tidx", tensor.BFloat16), New: always(rangeHalf(bfloat16.float, toBFloat16))},
		Def{Op: "Range", Types: only("Tidx", tensor.Int8), New: always(runRange[int8])},
		Def{Op: "Range", Types: only("Tidx", tensor.Int16), New: always(runRange[int16])},
		Def{Op: "Range", Types: only("Tidx", tensor.Int32), New: always(runRange[int32])},
		Def{Op: "Range", Types: only("Tidx", tensor.Int64), New: always(runRange[int64])},
		Def{Op: "Range", Types: only("Tidx", tensor.Uint16), New: always(runRange[uint16])},
		Def{Op: "Range", Types: only("Tidx", tensor.Uint32), New: always(runRange[uint32])},
		Def{Op: "Range", Types: only("Tidx", tensor.Uint64), New: always(runRange[uint64])},
		Def{Op: "LinSpace", Types: only("T", tensor.Float32), New: always(linSpace[float32])},
		Def{Op: "LinSpace", Types: only("T", tensor.Float64), New: always(linSpace[float64])},
		Def{Op: "OneHot", New: newOneHot},

		Def{Op: "Concat", New: always(concatV1)},
		Def{Op: "ConcatV2", New: always(concatV2)},
		Def{Op: "ConcatOffset", New: always(concatOffset)},
		Def{Op: "Pack", New: newPack},
		Def{Op: "Unpack", New: newUnpack},
		Def{Op: "Split", New: always(runSplit)},
		Def{Op: "SplitV", New: always(runSplitV)},

		Def{Op: "Slice", New: always(runSlice)},
		Def{Op: "StridedSlice", New: newStridedSlice},
		Def{Op: "StridedSliceGrad", New: newStridedSliceGrad},
		Def{Op: "StridedSliceAssign", New: newStridedSliceAssign},
		Def{Op: "ResourceStridedSliceAssign", New: newStridedSliceAssign},
		Def{Op: "TensorStridedSliceUpdate", New: newTensorStridedSliceUpdate},

		Def{Op: "Transpose", New: always(transpose)},
		Def{Op: "ConjugateTranspose", New: always(conjugateTranspose)},
		Def{Op: "Reverse", New: always(reverseV1)},
		Def{Op: "ReverseV2", New: always(reverseV2)},
		Def{Op: "ReverseSequence", New: newReverseSequence},
		Def{Op: "Tile", New: always(tile)},
		Def{Op: "BroadcastTo", New: always(broadcastTo)},
		Def{Op: "Pad", New: always(pad)},
		Def{Op: "PadV2", New: always(pad)},
		Def{Op: "MirrorPad", New: newMirrorPad},
		Def{Op: "MirrorPadGrad", Types: numbers("T"), New: newMirrorPadGrad},

		Def{Op: "Gather", New: always(gather)},
		Def{Op: "GatherV2", New: newGatherV2},
		Def{Op: "GatherNd", New: newGatherNd},
		Def{Op: "ResourceGather", New: newResourceGather},
		Def{Op: "ResourceGatherNd", New: newResourceGatherNd},
		Def{Op: "DynamicPartition", New: always(dynamicPartition)},
		Def{Op: "DynamicStitch", New: always(dynamicStitch)},
		Def{Op: "ParallelDynamicStitch", New: always(dynamicStitch)},

		Def{Op: "Diag", New: always(diag)},
		Def{Op: "DiagPart", New: always(diagPart)},
		Def{Op: "MatrixBandPart", New: always(matrixBandPart)},
		Def{Op: "MatrixDiag", New: newMatrixDiag},
		Def{Op: "MatrixDiagV2", New: newMatrixDiag},
		Def{Op: "MatrixDiagV3", New: newMatrixDiag},
		Def{Op: "MatrixDiagPart", New: newMatrixDiagPart},
		Def{Op: "MatrixDiagPartV2", New: newMatrixDiagPart},
		Def{Op: "MatrixDiagPartV3", New: newMatrixDiagPart},
		Def{Op: "MatrixSetDiag", New: newMatrixSetDiag},
		Def{Op: "MatrixSetDiagV2", New: newMatrixSetDiag},
		Def{Op: "MatrixSetDiagV3", New: newMatrixSetDiag},

		Def{Op: "ScatterNd", New: newScatterNd},
		Def{Op: "TensorScatterUpdate", New: newTensorScatter(updateSet)},
		Def{Op: "TensorScatterAdd", Types: numbers("T"), New: newTensorScatter(updateAdd)},
		Def{Op: "TensorScatterSub", Types: numbers("T"), New: newTensorScatter(updateSub)},
		Def{Op: "TensorScatterMin", Types: reals("T"), New: newTensorScatter(updateMin)},
		Def{Op: "TensorScatterMax", Types: reals("T"), New: newTensorScatter(updateMax)},
		Def{Op: "ScatterNdNonAliasingAdd", Types: numbersAndBool("T"), New: newTensorScatter(updateAdd)},
		Def{Op: "ScatterNdUpdate", New: newScatterNdVariable(updateSet)},
		Def{Op: "ScatterNdAdd", Types: numbersAndBool("T"), New: newScatterNdVariable(updateAdd)},
		Def{Op: "ScatterNdSub", Types: numbersAndBool("T"), New: newScatterNdVariable(updateSub)},
		Def{Op: "ScatterNdMin", Types: reals("T"), New: newScatterNdVariable(updateMin)},
		Def{Op: "ScatterNdMax", Types: reals("T"), New: newScatterNdVariable(updateMax)},
		Def{Op: "ResourceScatterNdUpdate", New: newScatterNdVariable(updateSet)},
		Def{Op: "ResourceScatterNdAdd", Types: numbersAndBool("T"), New: newScatterNdVariable(updateAdd)},
		Def{Op: "ResourceScatterNdSub", Types: numbersAndBool("T"), New: newScatterNdVariable(updateSub)},
		Def{Op: "ResourceScatterNdMin", Types: reals("T"), New: newScatterNdVariable(updateMin)},
		Def{Op: "ResourceScatterNdMax", Types: reals("T"), New: newScatterNdVariable(updateMax)},

		Def{Op: "Where", New: always(where)},
		Def{Op: "Unique", New: newUnique},
		Def{Op: "UniqueV2", New: newUnique},
		Def{Op: "UniqueWithCounts", New: newUnique},
		Def{Op: "UniqueWithCountsV2", New: newUnique},
		Def{Op: "ListDiff", New: newListDiff},
	)
}

func only(attr string, dtype tensor.DType) map[string][]tensor.DType {
	return map[string][]tensor.DType{attr: {dtype}}
}

func numbersAndBool(attr string) map[string][]tensor.DType {
	return map[string][]tensor.DType{attr: append(slices.Clone(numberTypes), tensor.Bool)}
}
