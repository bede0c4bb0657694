package array

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addArray(table)
	addTyped(table.Op)
	addSpace(table)
	addFillGPU(table)
	addMovesGPU(table)
	addWhereGPU(table)
	return table
}

// addArray adds the ops that make, inspect and rearrange arrays.
func addArray(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Shape", New: newShape},
		{Op: "ShapeN", New: newShape},
		{Op: "Size", New: newSize},
		{Op: "Rank", New: kernels.Always(rank)},
		{Op: "Reshape", New: kernels.Always(reshape)},
		{Op: "QuantizedReshape", Types: map[string][]tensor.DType{"T": {tensor.QUint8, tensor.QInt32}}, New: kernels.Always(quantizedReshape)},
		{Op: "ExpandDims", New: kernels.Always(expandDims)},
		{Op: "Squeeze", New: newSqueeze},
		{Op: "EnsureShape", New: newEnsureShape},
		{Op: "Bitcast", New: newBitcast},
		{Op: "UnravelIndex", New: kernels.Always(unravelIndex)},
		{Op: "InvertPermutation", New: kernels.Always(invertPermutation)},
		{Op: "BroadcastArgs", New: kernels.Always(broadcastArgs)},
		{Op: "BroadcastGradientArgs", New: kernels.Always(broadcastGradientArgs)},

		{Op: "Fill", New: kernels.Always(runFill)},
		{Op: "ZerosLike", New: kernels.Always(zerosLike)},
		{Op: "OnesLike", New: newOnesLike},
		{Op: "Empty", New: newEmpty},
		{Op: "OneHot", New: newOneHot},

		{Op: "Concat", New: kernels.Always(concatV1)},
		{Op: "ConcatV2", New: kernels.Always(concatV2)},
		{Op: "ConcatOffset", New: kernels.Always(concatOffset)},
		{Op: "Pack", New: newPack},
		{Op: "Unpack", New: newUnpack},
		{Op: "ParallelConcat", New: newParallelConcat},
		{Op: "DeepCopy", Types: dtypes.Copied("T"), New: kernels.Always(deepCopy)},
		{Op: "InplaceUpdate", Types: dtypes.Copied("T"), New: newInplace(update.Set)},
		{Op: "InplaceAdd", Types: dtypes.Numbers("T"), New: newInplace(update.Add)},
		{Op: "InplaceSub", Types: dtypes.Numbers("T"), New: newInplace(update.Sub)},
		{Op: "Split", New: kernels.Always(runSplit)},
		{Op: "SplitV", New: kernels.Always(runSplitV)},

		{Op: "Slice", New: kernels.Always(runSlice)},
		{Op: "StridedSlice", New: newStridedSlice},
		{Op: "StridedSliceGrad", New: newStridedSliceGrad},
		{Op: "StridedSliceAssign", New: newStridedSliceAssign},
		{Op: "ResourceStridedSliceAssign", New: newStridedSliceAssign},
		{Op: "TensorStridedSliceUpdate", New: newTensorStridedSliceUpdate},

		{Op: "Transpose", New: kernels.Always(transpose)},
		{Op: "ConjugateTranspose", New: kernels.Always(conjugateTranspose)},
		{Op: "Reverse", New: kernels.Always(reverseV1)},
		{Op: "ReverseV2", New: kernels.Always(reverseV2)},
		{Op: "ReverseSequence", New: newReverseSequence},
		{Op: "Tile", New: kernels.Always(tile)},
		{Op: "BroadcastTo", New: kernels.Always(broadcastTo)},
		{Op: "Pad", New: kernels.Always(pad)},
		{Op: "PadV2", New: kernels.Always(pad)},
		{Op: "MirrorPad", New: newMirrorPad},
		{Op: "MirrorPadGrad", Types: dtypes.Numbers("T"), New: newMirrorPadGrad},

		{Op: "Gather", New: kernels.Always(gather)},
		{Op: "GatherV2", New: newGatherV2},
		{Op: "GatherNd", New: newGatherNd},
		{Op: "ResourceGather", New: newResourceGather},
		{Op: "ResourceGatherNd", New: newResourceGatherNd},
		{Op: "DynamicPartition", New: kernels.Always(dynamicPartition)},
		{Op: "DynamicStitch", New: kernels.Always(dynamicStitch)},
		{Op: "ParallelDynamicStitch", New: kernels.Always(dynamicStitch)},

		{Op: "Diag", New: kernels.Always(diag)},
		{Op: "DiagPart", New: kernels.Always(diagPart)},
		{Op: "MatrixBandPart", New: kernels.Always(matrixBandPart)},
		{Op: "BatchMatrixBandPart", New: kernels.Always(matrixBandPart)},
		{Op: "MatrixDiag", New: newMatrixDiag},
		{Op: "BatchMatrixDiag", New: newMatrixDiag},
		{Op: "MatrixDiagV2", New: newMatrixDiag},
		{Op: "MatrixDiagV3", New: newMatrixDiag},
		{Op: "MatrixDiagPart", New: newMatrixDiagPart},
		{Op: "BatchMatrixDiagPart", New: newMatrixDiagPart},
		{Op: "MatrixDiagPartV2", New: newMatrixDiagPart},
		{Op: "MatrixDiagPartV3", New: newMatrixDiagPart},
		{Op: "MatrixSetDiag", New: newMatrixSetDiag},
		{Op: "BatchMatrixSetDiag", New: newMatrixSetDiag},
		{Op: "MatrixSetDiagV2", New: newMatrixSetDiag},
		{Op: "MatrixSetDiagV3", New: newMatrixSetDiag},

		{Op: "ScatterNd", New: newScatterNd},
		{Op: "TensorScatterUpdate", New: newTensorScatter(update.Set)},
		{Op: "TensorScatterAdd", Types: dtypes.Numbers("T"), New: newTensorScatter(update.Add)},
		{Op: "TensorScatterSub", Types: dtypes.Numbers("T"), New: newTensorScatter(update.Sub)},
		{Op: "TensorScatterMin", Types: dtypes.Reals("T"), New: newTensorScatter(update.Min)},
		{Op: "TensorScatterMax", Types: dtypes.Reals("T"), New: newTensorScatter(update.Max)},
		{Op: "ScatterNdNonAliasingAdd", Types: dtypes.NumbersAndBool("T"), New: newTensorScatter(update.Add)},
		{Op: "ScatterNdUpdate", New: newScatterNdVariable(update.Set)},
		{Op: "ScatterNdAdd", Types: dtypes.NumbersAndBool("T"), New: newScatterNdVariable(update.Add)},
		{Op: "ScatterNdSub", Types: dtypes.NumbersAndBool("T"), New: newScatterNdVariable(update.Sub)},
		{Op: "ScatterNdMin", Types: dtypes.Reals("T"), New: newScatterNdVariable(update.Min)},
		{Op: "ScatterNdMax", Types: dtypes.Reals("T"), New: newScatterNdVariable(update.Max)},
		{Op: "ResourceScatterNdUpdate", New: newScatterNdVariable(update.Set)},
		{Op: "ResourceScatterNdAdd", Types: dtypes.NumbersAndBool("T"), New: newScatterNdVariable(update.Add)},
		{Op: "ResourceScatterNdSub", Types: dtypes.NumbersAndBool("T"), New: newScatterNdVariable(update.Sub)},
		{Op: "ResourceScatterNdMin", Types: dtypes.Reals("T"), New: newScatterNdVariable(update.Min)},
		{Op: "ResourceScatterNdMax", Types: dtypes.Reals("T"), New: newScatterNdVariable(update.Max)},

		{Op: "Where", New: kernels.Always(where)},
		{Op: "Unique", New: newUnique},
		{Op: "UniqueV2", New: newUnique},
		{Op: "UniqueWithCounts", New: newUnique},
		{Op: "UniqueWithCountsV2", New: newUnique},
		{Op: "ListDiff", New: newListDiff},
	}...)
}

// addTyped adds the ops that have a kernel for each type.
func addTyped(op func(op string, sets ...[]kernels.Def)) {
	op("Range", rangeRows())
	op("LinSpace", kernels.ForType("T", tensor.Float32, kernels.Always(linSpace[float32])), kernels.ForType("T", tensor.Float64, kernels.Always(linSpace[float64])))
	op("HistogramFixedWidth", histogramOf[float32](), histogramOf[float64](), histogramOf[int32](), histogramOf[int64]())
}

// addSpace adds the ops that move elements of images between and along their dimensions.
func addSpace(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "Roll", HostInputs: []string{"shift", "axis"}, New: kernels.Always(roll)},
		{Op: "SpaceToBatchND", HostInputs: []string{"block_shape", "paddings", "crops"}, New: newSpaceBatchND(true)},
		{Op: "SpaceToBatch", HostInputs: []string{"paddings", "crops"}, New: newSpaceBatch(true)},
		{Op: "BatchToSpaceND", HostInputs: []string{"block_shape", "paddings", "crops"}, New: newSpaceBatchND(false)},
		{Op: "BatchToSpace", HostInputs: []string{"paddings", "crops"}, New: newSpaceBatch(false)},
		{Op: "SpaceToDepth", New: newDepthSpace(true)},
		{Op: "DepthToSpace", New: newDepthSpace(false)},
	}...)
}
