package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addConversions(table.Op)
	addArithmetic(table.Op)
	return table
}

func addConversions(op func(op string, sets ...[]kernels.Def)) {
	op("Dequantize", dequantizeRows[int8](tensor.QInt8), dequantizeRows[uint8](tensor.QUint8), dequantizeRows[int16](tensor.QInt16),
		dequantizeRows[uint16](tensor.QUint16), dequantizeRows[int32](tensor.QInt32))
	op("QuantizeV2", quantizeRows[int8](tensor.QInt8), quantizeRows[uint8](tensor.QUint8), quantizeRows[int16](tensor.QInt16),
		quantizeRows[uint16](tensor.QUint16), quantizeRows[int32](tensor.QInt32))
	op("QuantizeAndDequantize", roundTripRows[float32](1, math.MaxFloat32), roundTripRows[float64](1, math.MaxFloat64))
	op("QuantizeAndDequantizeV2", roundTripRows[float32](2, math.MaxFloat32), roundTripRows[float64](2, math.MaxFloat64))
	op("QuantizeAndDequantizeV3", roundTripRows[float32](3, math.MaxFloat32), roundTripRows[float64](3, math.MaxFloat64))
	op("QuantizeAndDequantizeV4", roundTripRows[float32](4, math.MaxFloat32), roundTripRows[float64](4, math.MaxFloat64))
	op("QuantizeAndDequantizeV4Grad", roundTripGradRows[float32](), roundTripGradRows[float64]())
	op("FakeQuantWithMinMaxArgs", fakeRows(true, false, (*fake).forward))
	op("FakeQuantWithMinMaxArgsGradient", fakeRows(true, false, (*fake).backward))
	op("FakeQuantWithMinMaxVars", fakeRows(false, false, (*fake).forward))
	op("FakeQuantWithMinMaxVarsGradient", fakeRows(false, false, (*fake).backward))
	op("FakeQuantWithMinMaxVarsPerChannel", fakeRows(false, true, (*fake).forward))
	op("FakeQuantWithMinMaxVarsPerChannelGradient", fakeRows(false, true, (*fake).backward))
}

func addArithmetic(op func(op string, sets ...[]kernels.Def)) {
	op("QuantizeDownAndShrinkRange", rowOf(kernels.Always(shrink), "Tinput", tensor.QInt32, "out_type", tensor.QUint8))
	op("Requantize", requantizeRows(tensor.QInt8, narrow8), requantizeRows(tensor.QUint8, narrowU8))
	op("RequantizationRange", rowOf(kernels.Always(usedRange), "Tinput", tensor.QInt32))
	op("RequantizePerChannel", requantizeChannelRows[int8](tensor.QInt8), requantizeChannelRows[uint8](tensor.QUint8))
	op("RequantizationRangePerChannel", rowOf(newChannelRange, "T", tensor.QInt32))
	op("QuantizedAdd", rowOf(kernels.Always(add), "T1", tensor.QUint8, "T2", tensor.QUint8, "Toutput", tensor.QInt32))
	op("QuantizedMul", rowOf(kernels.Always(multiply), "T1", tensor.QUint8, "T2", tensor.QUint8, "Toutput", tensor.QInt32))
	op("QuantizedBiasAdd", biasRows[int8](tensor.QInt8), biasRows[uint8](tensor.QUint8))
	op("QuantizedMatMul", rowOf(newMatMul, "T1", tensor.QUint8, "T2", tensor.QUint8, "Toutput", tensor.QInt32))
	op("QuantizedConv2D", rowOf(newConv, "Tinput", tensor.QUint8, "Tfilter", tensor.QUint8, "out_type", tensor.QInt32))
	op("QuantizedConcat", concatRows[uint8](tensor.QUint8), concatRows[int32](tensor.QInt32))
	op("QuantizedRelu", reluRows[uint8](tensor.QUint8, false), reluRows[int32](tensor.QInt32, false))
	op("QuantizedRelu6", reluRows[uint8](tensor.QUint8, true), reluRows[int32](tensor.QInt32, true))
	op("QuantizedInstanceNorm", rowOf(newInstanceNorm, "T", tensor.QUint8))
	op("QuantizedBatchNormWithGlobalNormalization", rowOf(newBatchNorm, "Tinput", tensor.QUint8, "out_type", tensor.QInt32))
}
