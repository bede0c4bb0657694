package debug

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Table returns the ops of the family.
func Table() *kernels.Table {
	table := &kernels.Table{}
	op := table.Op
	op("Copy", watcher(newCopy))
	op("CopyHost", watcher(newCopy))
	op("DebugIdentity", watcher(newIdentity))
	op("DebugNanCount", watchers(perType(newNanCount, floats, integers)))
	op("DebugNumericSummary", watchers(perType(newNumericSummary, wide, integers, bools)))
	op("DebugNumericSummaryV2", perType(newHealth, floats, integers, bools))
	return table
}

// watcher returns the row of an op on tensors of all types, which may be variables without a value.
func watcher(construct func(*kernels.Construction) (any, error)) []kernels.Def {
	return watchers([]kernels.Def{{New: construct}})
}

// watchers makes rows accept variables without a value.
func watchers(rows []kernels.Def) []kernels.Def {
	for i := range rows {
		rows[i].UninitializedOK = true
	}
	return rows
}

// numbers reads the elements of a tensor of one type.
type numbers struct {
	dtype tensor.DType
	read  func(t *tensor.Tensor, each func(x float64))
}

func numbersOf[T tensor.Elem](dtype tensor.DType, float func(v T) float64) numbers {
	return numbers{dtype, func(t *tensor.Tensor, each func(x float64)) {
		for _, v := range tensor.Of[T](t) {
			each(float(v))
		}
	}}
}

func plain[T element.Integer | float32 | float64](dtype tensor.DType) numbers {
	return numbersOf(dtype, func(v T) float64 { return float64(v) })
}

var (
	wide   = []numbers{plain[float32](tensor.Float32), plain[float64](tensor.Float64)}
	floats = append([]numbers{
		numbersOf(tensor.Float16, func(v element.Float16) float64 { return float64(v.Float()) }),
		numbersOf(tensor.BFloat16, func(v element.BFloat16) float64 { return float64(v.Float()) }),
	}, wide...)
	integers = []numbers{
		plain[int8](tensor.Int8), plain[int16](tensor.Int16), plain[int32](tensor.Int32), plain[int64](tensor.Int64),
		plain[uint8](tensor.Uint8), plain[uint16](tensor.Uint16), plain[uint32](tensor.Uint32), plain[uint64](tensor.Uint64),
	}
	bools = []numbers{numbersOf(tensor.Bool, func(v bool) float64 { return float64(element.OneIf(v)) })}
)

// perType returns the rows of an op that reads each number, for all types of the sets.
func perType(construct func(c *kernels.Construction, in numbers) (any, error), sets ...[]numbers) []kernels.Def {
	var rows []kernels.Def
	for _, in := range slices.Concat(sets...) {
		rows = append(rows, kernels.Def{Types: map[string][]tensor.DType{"T": {in.dtype}}, Expensive: true,
			New: func(c *kernels.Construction) (any, error) { return construct(c, in) }})
	}
	return rows
}
