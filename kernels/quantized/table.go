package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addConversions(table.Op)
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
