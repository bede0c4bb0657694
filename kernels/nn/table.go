package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addActivation(table)
	addBatchnorm(table)
	addBias(table)
	addConv(table)
	addConv3d(table)
	addDepthwise(table)
	addFormat(table)
	addLRN(table)
	addMisc(table)
	addPool(table)
	addPool3d(table)
	addRnnLstm(table)
	addSoftmax(table)
	addTopK(table)
	addXent(table)
	addActivationGPU(table)
	addBatchNormGPU(table)
	addBiasGPU(table)
	addConvGPU(table)
	addDepthwiseGPU(table)
	addLRNGPU(table)
	addPoolGPU(table)
	addSoftmaxGPU(table)
	addTopKGPU(table)
	return table
}

func addActivation(table *kernels.Table) {
	unary, binary := elementwise.Into(table)
	same := elementwise.BinaryOptions{SameShape: true}
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

	leakyRows := func(alpha float32) elementwise.UnaryRows {
		return elementwise.Floats1(leaky(alpha), leaky(float64(alpha)))
	}
	leakyGrads := func(alpha float32) elementwise.BinaryRows {
		return elementwise.Floats2(leakyGrad(alpha), leakyGrad(float64(alpha)))
	}
	for i, row := range leakyRows(0) {
		types := map[string][]tensor.DType{"T": {row.In.DType}}
		table.Add(
			kernels.Def{Op: "LeakyRelu", Types: types, New: func(c *kernels.Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &elementwise.UnaryKernel{UnaryRow: leakyRows(alpha)[i], Grain: element.CheapGrain}, err
			}},
			kernels.Def{Op: "LeakyReluGrad", Types: types, New: func(c *kernels.Construction) (any, error) {
				alpha, err := c.Attrs().Float("alpha")
				return &elementwise.BinaryKernel{BinaryRow: leakyGrads(alpha)[i], BinaryOptions: elementwise.BinaryOptions{SameShape: true, Grain: element.CheapGrain}}, err
			}})
	}
}

func addBatchnorm(table *kernels.Table) {
	batchNormRow(table, "FusedBatchNorm", 5, false, (*batchNorm).forward, []int{0})
	batchNormRow(table, "FusedBatchNormV2", 5, true, (*batchNorm).forward, []int{0})
	batchNormRow(table, "FusedBatchNormV3", 6, true, (*batchNorm).forward, []int{0})
	batchNormRow(table, "FusedBatchNormGrad", 5, false, (*batchNorm).backward, []int{0, 1})
	batchNormRow(table, "FusedBatchNormGradV2", 5, true, (*batchNorm).backward, []int{0, 1})
	batchNormRow(table, "FusedBatchNormGradV3", 5, true, (*batchNorm).backward, []int{0, 1})
}

func addBias(table *kernels.Table) {
	registerBias(table, elementwise.Additions())
	biasGrad(table, reduce.SumFloat)
	biasGrad(table, reduce.Sums[float64]())
	for _, half := range halves.Types {
		registerBiasGrad(table, half, func(first bool) kernels.Kernel {
			return &halves.ViaFloat{Inner: &biasGradKernel[float32]{reduce.SumFloat, tensor.Float32, first}, Half: half}
		})
	}
	biasGrad(table, reduce.Sums[int8]())
	biasGrad(table, reduce.Sums[int16]())
	biasGrad(table, reduce.Sums[int32]())
	biasGrad(table, reduce.Sums[int64]())
	biasGrad(table, reduce.Sums[uint8]())
	biasGrad(table, reduce.Sums[uint16]())
	biasGrad(table, reduce.Sums[uint32]())
	biasGrad(table, reduce.Sums[uint64]())
	biasGrad(table, reduce.Sums[complex64]())
	biasGrad(table, reduce.Sums[complex128]())
}

func addConv(table *kernels.Table) {
	convRows(table, simd.Gemm)
	convRows(table, gemm.Portable[float64])
	convRows(table, gemm.Portable[int32])
}

func addConv3d(table *kernels.Table) {
	conv3Rows(table, simd.Gemm)
	conv3Rows(table, gemm.Portable[float64])
	halves.Rows(table, "Conv", "T", tensor.Float32, newConv(simd.Gemm))
	halves.Rows(table, "Conv", "T", tensor.Float64, newConv(gemm.Portable[float64]))
	halves.Rows(table, "Conv", "T", tensor.Int32, newConv(gemm.Portable[int32]))
}

func addDepthwise(table *kernels.Table) {
	depthwiseRows[float32](table)
	depthwiseRows[float64](table)
}

func addFormat(table *kernels.Table) {
	only := func(t tensor.DType) map[string][]tensor.DType { return map[string][]tensor.DType{"T": {t}} }
	table.Add(
		kernels.Def{Op: "DataFormatDimMap", Types: only(tensor.Int32), New: formatDimMap[int32]},
		kernels.Def{Op: "DataFormatDimMap", Types: only(tensor.Int64), New: formatDimMap[int64]},
		kernels.Def{Op: "DataFormatVecPermute", Types: only(tensor.Int32), New: formatPermute[int32]},
		kernels.Def{Op: "DataFormatVecPermute", Types: only(tensor.Int64), New: formatPermute[int64]})
}

func addLRN(table *kernels.Table) {
	halves.Rows(table, "LRN", "T", tensor.Float32, func(c *kernels.Construction) (any, error) {
		l, err := newLRN(c)
		return kernels.Func(l.forward), err
	})
	halves.Rows(table, "LRNGrad", "T", tensor.Float32, func(c *kernels.Construction) (any, error) {
		l, err := newLRN(c)
		return kernels.Func(l.backward), err
	})
}

func addMisc(table *kernels.Table) {
	l2Loss(table, reduce.SumFloat, simd.Square)
	l2Loss(table, reduce.Sums[float64](), elementwise.Square[float64])
}

func addPool(table *kernels.Table) {
	m32 := poolMath[float32]{float32(math.Inf(-1)), simd.Max, simd.Add}
	m64 := poolMath[float64]{math.Inf(-1), elementwise.Maximum[float64], elementwise.Add[float64]}
	poolRows(table, m32)
	poolRows(table, m64)
	poolRows(table, poolMath[int8]{least: math.MinInt8, max: elementwise.Maximum[int8]})
	poolRows(table, poolMath[int16]{least: math.MinInt16, max: elementwise.Maximum[int16]})
	poolRows(table, poolMath[int32]{least: math.MinInt32, max: elementwise.Maximum[int32]})
	poolRows(table, poolMath[int64]{least: math.MinInt64, max: elementwise.Maximum[int64]})
	poolRows(table, poolMath[uint8]{max: elementwise.Maximum[uint8]})
	poolRows(table, poolMath[uint16]{max: elementwise.Maximum[uint16]})
	poolRows(table, poolMath[uint32]{max: elementwise.Maximum[uint32]})
	poolRows(table, poolMath[uint64]{max: elementwise.Maximum[uint64]})
	avgPoolRows(table, m32)
	avgPoolRows(table, m64)
}

func addPool3d(table *kernels.Table) {
	pool3Rows[float32](table)
	pool3Rows[float64](table)
}

func addSoftmax(table *kernels.Table) {
	softmaxRows(table, rowMath32)
	softmaxRows(table, rowMath64)
}

func addTopK(table *kernels.Table) {
	topKRows[float32](table)
	halves.Rows(table, "ApproxTopK", "T", tensor.Float32, newApproxTopK)
	topKRows[float64](table)
	topKRows[int8](table)
	topKRows[int16](table)
	topKRows[int32](table)
	topKRows[int64](table)
	topKRows[uint8](table)
	topKRows[uint16](table)
	topKRows[uint32](table)
	topKRows[uint64](table)
	table.Add(
		kernels.Def{Op: "InTopK", New: func(c *kernels.Construction) (any, error) {
			k, err := c.Attrs().Int("k")
			return &inTopKKernel{k: k}, err
		}},
		kernels.Def{Op: "InTopKV2", New: func(*kernels.Construction) (any, error) { return &inTopKKernel{fromInput: true}, nil }})
}

func addXent(table *kernels.Table) {
	xentRows(table, rowMath32)
	xentRows(table, rowMath64)
}

func addRnnLstm(table *kernels.Table) {
	for op, construct := range map[string]func(*kernels.Construction) (any, error){
		"LSTMBlockCell": newLSTMBlockCell, "BlockLSTM": newBlockLSTM, "BlockLSTMV2": newBlockLSTM,
		"LSTMBlockCellGrad": newLSTMBlockCellGrad, "BlockLSTMGrad": newBlockLSTMGrad, "BlockLSTMGradV2": newBlockLSTMGrad,
	} {
		table.Add([]kernels.Def{
			{Op: op, Types: dtypes.Only("T", tensor.Float32), Expensive: true, New: construct},
			{Op: op, Types: dtypes.Only("T", tensor.Float16), Expensive: true, New: halves.Constructor(tensor.Float16, construct)},
		}...)
	}
}
