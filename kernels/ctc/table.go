package ctc

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	op := table.Op
	op("CTCLoss", rows[float32](newLoss[float32]), rows[float64](newLoss[float64]))
	op("CTCGreedyDecoder", rows[float32](newGreedy[float32]), rows[float64](newGreedy[float64]))
	op("CTCBeamSearchDecoder", rows[float32](newBeamSearch[float32]), rows[float64](newBeamSearch[float64]))
	return table
}

// rows returns an op's rows for one element type.
func rows[T element.Floating](construct func(*kernels.Construction) (any, error)) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return []kernels.Def{{Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: construct}}
}
