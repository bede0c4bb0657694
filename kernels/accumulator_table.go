package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops on conditional accumulators. Dense ones have a resource handle or a reference to a pair of container
// and name, sparse ones such a reference alone. Applying adds up whole gradients, so it is expensive.
func init() {
	types := map[string][]tensor.DType{"dtype": {tensor.Float16, tensor.Float32, tensor.Float64}}
	for _, family := range []string{"", "Resource"} {
		Register(
			Def{Op: family + "ConditionalAccumulator", Types: types, New: newDenseAccumulator},
			Def{Op: family + "AccumulatorApplyGradient", Expensive: true, New: always(applyGradient)},
			Def{Op: family + "AccumulatorTakeGradient", New: newTakeGradient},
			Def{Op: family + "AccumulatorSetGlobalStep", New: always(setGlobalStep)},
			Def{Op: family + "AccumulatorNumAccumulated", New: always(numAccumulated)},
		)
	}
	Register(
		Def{Op: "SparseConditionalAccumulator", Types: types, New: newSparseAccumulator},
		Def{Op: "SparseAccumulatorApplyGradient", Expensive: true, New: newApplySparseGradient},
		Def{Op: "SparseAccumulatorTakeGradient", New: newTakeGradient},
	)
}
