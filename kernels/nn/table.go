package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addActivation(table)
	addBatchnorm(table.Op)
	addBias(table.Op)
	addConv(table.Op)
	addFormat(table.Op)
	addNormalization(table.Op)
	addPool(table.Op)
	addRecurrent(table.Op)
	addSoftmax(table.Op)
	addTopK(table.Op)
	addWindows(table.Op)
	addActivationGPU(table)
	addBatchNormGPU(table)
	addBiasGPU(table)
	addConvGPU(table)
	addDepthwiseGPU(table)
	addL2LossGPU(table)
	addLRNGPU(table)
	addPoolGPU(table)
	addSoftmaxGPU(table)
	addTopKGPU(table)
	return table
}

func addActivation(table *kernels.Table) {
	unary, binary := elementwise.Into(table)
	op, same := table.Op, elementwise.BinaryOptions{SameShape: true}
	unary("Relu", element.CheapGrain, elementwise.Floats1(simd.Relu, relu[float64]), elementwise.Signed1(relu[int8], relu[int16], relu[int32], relu[int64]),
		elementwise.Unsigned1(relu[uint8], relu[uint16], relu[uint32], relu[uint64]))
	binary("ReluGrad", same, elementwise.Floats2(simd.ReluGrad, reluGrad[float64]), elementwise.Signed2(reluGrad[int8], reluGrad[int16], reluGrad[int32], reluGrad[int64]),
		elementwise.Unsigned2(reluGrad[uint8], reluGrad[uint16], reluGrad[uint32], reluGrad[uint64]))
	unary("Relu6", element.CheapGrain, elementwise.Floats1(relu6[float32], relu6[float64]), elementwise.Signed1(relu6[int8], relu6[int16], relu6[int32], relu6[int64]),
		elementwise.Unsigned1(relu6[uint8], relu6[uint16], relu6[uint32], relu6[uint64]))
	binary("Relu6Grad", same, elementwise.Floats2(relu6Grad[float32], relu6Grad[float64]), elementwise.Signed2(relu6Grad[int8], relu6Grad[int16], relu6Grad[int32], relu6Grad[int64]),
		elementwise.Unsigned2(relu6Grad[uint8], relu6Grad[uint16], relu6Grad[uint32], relu6Grad[uint64]))
	unary("Elu", element.CostlyGrain, elementwise.PerElement1(elu64))
	binary("EluGrad", same, elementwise.PerElement2(eluGrad64))
	unary("Selu", element.CostlyGrain, elementwise.PerElement1(selu64))
	binary("SeluGrad", same, elementwise.PerElement2(seluGrad64))
	unary("Softplus", element.CostlyGrain, elementwise.PerElement1(softplus64))
	binary("SoftplusGrad", same, elementwise.PerElement2(softplusGrad64))
	unary("Softsign", element.CheapGrain, elementwise.Floats1(softsign[float32], softsign[float64]))
	binary("SoftsignGrad", same, elementwise.PerElement2(softsignGrad64))

	op("LeakyRelu", leakyRows())
	op("LeakyReluGrad", leakyGradRows())
}

func addBatchnorm(op func(op string, sets ...[]kernels.Def)) {
	op("FusedBatchNorm", batchNormRows(5, false, (*batchNorm).forward, 0))
	op("FusedBatchNormV2", batchNormRows(5, true, (*batchNorm).forward, 0))
	op("FusedBatchNormV3", batchNormRows(6, true, (*batchNorm).forward, 0))
	op("FusedBatchNormGrad", batchNormRows(5, false, (*batchNorm).backward, 0, 1))
	op("FusedBatchNormGradV2", batchNormRows(5, true, (*batchNorm).backward, 0, 1))
	op("FusedBatchNormGradV3", batchNormRows(5, true, (*batchNorm).backward, 0, 1))
}

func addBias(op func(op string, sets ...[]kernels.Def)) {
	op("BiasAdd", biasRows(args.ChannelsFirst))
	op("BiasAddV1", biasRows(channelsLast))
	op("BiasAddGrad", biasGradRows())
}

func addConv(op func(op string, sets ...[]kernels.Def)) {
	doubles, integers := methods[float64]{mul: simd.Gemm64}, methods[int32]{mul: simd.GemmInt32}
	op("Conv2D", convolveRows(floats), convolveRows(doubles), convolveRows(integers))
	op("Conv2DBackpropInput", convolveInputGradRows(floats), convolveInputGradRows(doubles), convolveInputGradRows(integers))
	op("Conv2DBackpropFilter", convolveFilterGradRows(floats), convolveFilterGradRows(doubles), convolveFilterGradRows(integers))
	op("Conv3D", convolve3Rows(floats), convolve3Rows(doubles))
	op("Conv3DBackpropInput", convolve3InputGradRows(floats, false), convolve3InputGradRows(doubles, false))
	op("Conv3DBackpropInputV2", convolve3InputGradRows(floats, true), convolve3InputGradRows(doubles, true))
	op("Conv3DBackpropFilter", convolve3FilterGradRows(floats, false), convolve3FilterGradRows(doubles, false))
	op("Conv3DBackpropFilterV2", convolve3FilterGradRows(floats, true), convolve3FilterGradRows(doubles, true))
	op("FusedResizeAndPadConv2D", resizeConvRows(floats), resizeConvRows(doubles))
	op("FusedPadConv2D", padConvRows(floats), padConvRows(doubles))
	op("Conv", convRows(floats), convRows(doubles), convRows(integers))
	op("DepthwiseConv2dNative", depthwiseRows((*simd.Taps).SumOfProducts), depthwiseRows(simd.SumOfTapProducts[float64]))
	op("DepthwiseConv2dNativeBackpropInput", depthwiseInputGradRows((*simd.Taps).SumOfProducts), depthwiseInputGradRows(simd.SumOfTapProducts[float64]))
	op("DepthwiseConv2dNativeBackpropFilter", depthwiseFilterGradRows((*simd.Taps).AddProducts), depthwiseFilterGradRows(simd.AddTapProducts[float64]))
}

func addFormat(op func(op string, sets ...[]kernels.Def)) {
	op("DataFormatDimMap", kernels.ForType("T", tensor.Int32, formatDimMap[int32]), kernels.ForType("T", tensor.Int64, formatDimMap[int64]))
	op("DataFormatVecPermute", kernels.ForType("T", tensor.Int32, formatPermute[int32]), kernels.ForType("T", tensor.Int64, formatPermute[int64]))
}

func addNormalization(op func(op string, sets ...[]kernels.Def)) {
	op("LRN", halves.Rows("T", tensor.Float32, newLRNKernel((*lrn).forward)))
	op("LRNGrad", halves.Rows("T", tensor.Float32, newLRNKernel((*lrn).backward)))
	op("BatchNormWithGlobalNormalization", globalNormRows[float32](false), globalNormRows[float64](false))
	op("BatchNormWithGlobalNormalizationGrad", globalNormRows[float32](true), globalNormRows[float64](true))
	op("L2Loss", l2Loss(reduce.SumFloat, simd.Square), l2Loss(reduce.Sums[float64](), elementwise.Square[float64]))
}

func addPool(op func(op string, sets ...[]kernels.Def)) {
	op("MaxPool", maxPool(true))
	op("MaxPoolV2", maxPool(false))
	op("MaxPoolGrad", maxPoolGrad(true))
	op("MaxPoolGradV2", maxPoolGrad(false))
	op("MaxPoolGradGrad", maxPoolGradGrad(true))
	op("MaxPoolGradGradV2", maxPoolGradGrad(false))
	op("AvgPool", avgPool(of32), avgPool(of64))
	op("AvgPoolGrad", avgPoolGrad(of32), avgPoolGrad(of64))
	op("QuantizedMaxPool", quantizedMaxPool(tensor.QInt8, maxOf[int8](math.MinInt8)),
		quantizedMaxPool(tensor.QUint8, maxOf[uint8](0)))
	op("QuantizedAvgPool", quantizedAvgPool[int8](tensor.QInt8), quantizedAvgPool[uint8](tensor.QUint8))
	op("MaxPool3D", pool3Rows(maxPool3[float32], maxPool3[float64], []int{0}, -1))
	op("MaxPool3DGrad", pool3Rows(maxPool3Grad[float32], maxPool3Grad[float64], []int{0, 1, 2}, -1))
	op("MaxPool3DGradGrad", pool3Rows(maxPool3GradGrad[float32], maxPool3GradGrad[float64], []int{0, 1, 2}, -1))
	op("AvgPool3D", pool3Rows(avgPool3[float32], avgPool3[float64], []int{0}, -1))
	op("AvgPool3DGrad", pool3Rows(avgPool3Grad[float32], avgPool3Grad[float64], []int{1}, 0))
}

func addWindows(op func(op string, sets ...[]kernels.Def)) {
	op("MaxPoolWithArgmax", argmaxRows[float32](), argmaxRows[float64](), argmaxRows[int8](), argmaxRows[int16](), argmaxRows[int32](), argmaxRows[int64](),
		argmaxRows[uint8](), argmaxRows[uint16](), argmaxRows[uint32](), argmaxRows[uint64]())
	op("MaxPoolGradWithArgmax", argmaxGradRows[float32](), argmaxGradRows[float64](), argmaxGradRows[int8](), argmaxGradRows[int16](), argmaxGradRows[int32](), argmaxGradRows[int64](),
		argmaxGradRows[uint8](), argmaxGradRows[uint16](), argmaxGradRows[uint32](), argmaxGradRows[uint64]())
	op("FractionalMaxPool", fractionalMax[float32](-math.MaxFloat32), fractionalMax[float64](-math.MaxFloat64), fractionalMax[int32](math.MinInt32), fractionalMax[int64](math.MinInt64))
	op("FractionalMaxPoolGrad", fractionalMaxGrad[float32](), fractionalMaxGrad[float64](), fractionalMaxGrad[int32](), fractionalMaxGrad[int64]())
	op("FractionalAvgPool", fractionalAvg[float32](), fractionalAvg[float64](), fractionalAvg[int32](), fractionalAvg[int64]())
	op("FractionalAvgPoolGrad", fractionalAvgGrad[float32](), fractionalAvgGrad[float64](), fractionalAvgGrad[int32](), fractionalAvgGrad[int64]())
	op("ExtractImagePatches", []kernels.Def{{Types: dtypes.Numbers("T"), New: newPatches(2)}})
	op("ExtractVolumePatches", []kernels.Def{{Types: dtypes.Reals("T"), New: newPatches(3)}})
	op("Dilation2D", dilationRows(dilatedImage))
	op("Dilation2DBackpropInput", dilationRows(dilatedInputGrad))
	op("Dilation2DBackpropFilter", dilationRows(dilatedFilterGrad))
}

func addSoftmax(op func(op string, sets ...[]kernels.Def)) {
	op("Softmax", softmaxRows(false))
	op("LogSoftmax", softmaxRows(true))
	op("SoftmaxCrossEntropyWithLogits", crossEntropy(rowMath32), crossEntropy(rowMath64))
	op("SparseSoftmaxCrossEntropyWithLogits", sparseCrossEntropy(rowMath32), sparseCrossEntropy(rowMath64))
}

func addTopK(op func(op string, sets ...[]kernels.Def)) {
	op("IsotonicRegression", isotonicRows[float32, float32](), isotonicRows[float64, float64](), isotonicHalves(),
		isotonicRows[int8, float32](), isotonicRows[int16, float32](), isotonicRows[int32, float64](), isotonicRows[int64, float64]())
	op("TopK", topKAttr(rankFloats), topKAttr(rankDoubles), topKAttr(rankInt8), topKAttr(rankInt16), topKAttr(rankInt32), topKAttr(rankInt64),
		topKAttr(rankUint8), topKAttr(rankUint16), topKAttr(rankUint32), topKAttr(rankUint64))
	op("TopKV2", topKInput(rankFloats), topKInput(rankDoubles), topKInput(rankInt8), topKInput(rankInt16), topKInput(rankInt32), topKInput(rankInt64),
		topKInput(rankUint8), topKInput(rankUint16), topKInput(rankUint32), topKInput(rankUint64))
	op("ApproxTopK", halves.Rows("T", tensor.Float32, newApproxTopK))
	op("InTopK", []kernels.Def{{New: newInTopK}})
	op("InTopKV2", []kernels.Def{{New: newInTopKV2}})
}

func addRecurrent(op func(op string, sets ...[]kernels.Def)) {
	op("GRUBlockCell", gruRows(gruCell))
	op("GRUBlockCellGrad", gruRows(gruCellGrad))
	op("LSTMBlockCell", lstmRows(newLSTMBlockCell))
	op("LSTMBlockCellGrad", lstmRows(newLSTMBlockCellGrad))
	op("BlockLSTM", lstmRows(newBlockLSTM))
	op("BlockLSTMV2", lstmRows(newBlockLSTM))
	op("BlockLSTMGrad", lstmRows(newBlockLSTMGrad))
	op("BlockLSTMGradV2", lstmRows(newBlockLSTMGrad))
}
