package uniform

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Table returns the ops of the family.
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

// rowOf returns the row for the given attributes: types alternates attribute names and their types.
func rowOf(make func(*graph.AttrReader) kernels.Kernel, types ...any) []kernels.Def {
	row := kernels.Def{Types: map[string][]tensor.DType{}, Expensive: true, New: kernels.FromAttrs(make)}
	for i := 0; i < len(types); i += 2 {
		row.Types[types[i].(string)] = []tensor.DType{types[i+1].(tensor.DType)}
	}
	return []kernels.Def{row}
}
