package training

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// optimizers makes the rows of an optimizer for the floating types. The halves use the float update.
func optimizers(table *kernels.Table, o optimizer, f32 update[float32], f64 update[float64]) {
	registerOptimizer(table, &o, f32, scalar32)
	registerOptimizer(table, &o, f64, func(t *tensor.Tensor) float64 {
		if t.DType() == tensor.Int64 {
			return float64(tensor.Of[int64](t)[0])
		}
		return tensor.Of[float64](t)[0]
	})
	registerOptimizer(table, &o, halfUpdate[element.Float16](f32), func(t *tensor.Tensor) element.Float16 {
		if t.DType() == tensor.Int64 {
			return element.ToFloat16(scalar32(t))
		}
		return tensor.Of[element.Float16](t)[0]
	})
	registerOptimizer(table, &o, halfUpdate[element.BFloat16](f32), func(t *tensor.Tensor) element.BFloat16 {
		if t.DType() == tensor.Int64 {
			return element.ToBFloat16(scalar32(t))
		}
		return tensor.Of[element.BFloat16](t)[0]
	})
	registerGPUOptimizer(table, &o)
}

func scalar32(t *tensor.Tensor) float32 {
	if t.DType() == tensor.Int64 { // global_step
		return float32(tensor.Of[int64](t)[0])
	}
	return tensor.Of[float32](t)[0]
}

// complexOptimizers makes the rows for the complex types.
func complexOptimizers(table *kernels.Table, o optimizer, c64 update[complex64], c128 update[complex128]) {
	registerOptimizer(table, &o, c64, func(t *tensor.Tensor) complex64 { return tensor.Of[complex64](t)[0] })
	registerOptimizer(table, &o, c128, func(t *tensor.Tensor) complex128 { return tensor.Of[complex128](t)[0] })
}
