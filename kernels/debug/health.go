package debug

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Modes of DebugNumericSummaryV2 (tensorflow.TensorDebugMode).
const (
	curtHealth    = 2
	conciseHealth = 3
	fullHealth    = 4
	shapeOnly     = 5
	reduceInfNan  = 8
	shapeSizes    = 6 // the number of trailing sizes that shapeOnly reports
)

// newHealth returns the kernel of DebugNumericSummaryV2, which counts kinds of numbers according to the mode.
func newHealth(c *kernels.Construction, in numbers) (any, error) {
	a := c.Attrs().Reader()
	mode, id, dtype := a.Int("tensor_debug_mode"), a.Int("tensor_id"), a.Type("output_dtype")
	if err := a.Err(); err != nil {
		return nil, err
	}
	digits := map[tensor.DType]int{tensor.Float32: 24, tensor.Float64: 53}[dtype]
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		if mode != reduceInfNan && id > 1<<digits {
			return status.InvalidArgumentf("DebugNumericSummaryV2Op requires tensor_id to be less than or equal to (2^%d). Given tensor_id:%d", digits, id)
		}
		h, ok := healths[mode]
		if !ok {
			return status.Unimplementedf("Unimplemented tensor debug mode: %d", mode)
		}
		n := newNumericCount(math.Inf(-1), math.Inf(1))
		if mode != shapeOnly {
			in.read(t, n.add)
		}
		values := h(n, t, float64(id))
		out, err := ctx.Allocate(0, dtype, tensor.Shape{int64(len(values))})
		if err != nil {
			return err
		}
		if dtype == tensor.Float64 {
			copy(tensor.Of[float64](out), values)
			return nil
		}
		for i, v := range values {
			tensor.Of[float32](out)[i] = float32(v)
		}
		return nil
	}), nil
}

// healths computes the outputs of the modes.
var healths = map[int64]func(n *numericCount, t *tensor.Tensor, id float64) []float64{
	curtHealth: func(n *numericCount, _ *tensor.Tensor, id float64) []float64 {
		return []float64{id, where(n.below+n.above+n.nan > 0, 1)}
	},
	conciseHealth: func(n *numericCount, t *tensor.Tensor, id float64) []float64 {
		return []float64{id, float64(t.Len()), n.below, n.above, n.nan}
	},
	fullHealth: func(n *numericCount, t *tensor.Tensor, id float64) []float64 {
		// As in TensorFlow, the device is not reported.
		return []float64{id, -1, float64(t.DType()), float64(t.Rank()), float64(t.Len()), n.below, n.above, n.nan, n.negative, n.zero, n.positive}
	},
	shapeOnly: func(_ *numericCount, t *tensor.Tensor, id float64) []float64 {
		s := t.Shape()
		sizes := make([]float64, shapeSizes)
		for i, size := range s[max(0, len(s)-shapeSizes):] {
			sizes[i] = float64(size)
		}
		return append([]float64{id, float64(t.DType()), float64(len(s)), float64(t.Len())}, sizes...)
	},
	reduceInfNan: func(n *numericCount, _ *tensor.Tensor, _ float64) []float64 {
		return []float64{where(n.below > 0, math.Inf(-1)), where(n.above > 0, math.Inf(1)), where(n.nan > 0, math.NaN())}
	},
}

func where(b bool, v float64) float64 {
	if b {
		return v
	}
	return 0
}
