package uniform

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	op := table.Op
	op("UniformQuantize", quantizeRow[int8](tensor.QInt8), quantizeRow[uint8](tensor.QUint8), quantizeRow[int32](tensor.QInt32))
	op("UniformDequantize", dequantizeRow[int8](tensor.QInt8), dequantizeRow[uint8](tensor.QUint8), dequantizeRow[int32](tensor.QInt32))
	op("UniformRequantize", requantizeRow[int8](tensor.QInt8), requantizeRow[int32](tensor.QInt32))
	op("UniformQuantizedAdd", rowOf(newAdd, "T", tensor.QInt32))
	op("UniformQuantizedClipByValue", rowOf(newClip, "T", tensor.QInt32))
	op("UniformQuantizedDot", rowOf(newDot, "Tin", tensor.QInt8, "Tout", tensor.QInt32))
	op("UniformQuantizedDotHybrid", rowOf(newHybridDot, "Tlhs", tensor.Float32, "Trhs", tensor.QInt8, "Tout", tensor.Float32))
	op("UniformQuantizedConvolution", rowOf(newConv, "Tin", tensor.QInt8, "Tout", tensor.QInt32))
	op("UniformQuantizedConvolutionHybrid", rowOf(newHybridConv, "Tlhs", tensor.Float32, "Trhs", tensor.QInt8, "Tout", tensor.Float32))
	return table
}

// rowOf is the row for types of attributes, which are named in turn with them.
func rowOf(construct func(*kernels.Construction) (any, error), types ...any) []kernels.Def {
	row := kernels.Def{Types: map[string][]tensor.DType{}, Expensive: true, New: construct}
	for i := 0; i < len(types); i += 2 {
		row.Types[types[i].(string)] = []tensor.DType{types[i+1].(tensor.DType)}
	}
	return []kernels.Def{row}
}
