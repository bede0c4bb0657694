package update

import (
	"github.com/troupe-run/troupe/containers/accumulator"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Arithmetic returns the operations with which accumulators sum gradients of a type and divide the sums.
func Arithmetic(d tensor.DType) accumulator.Arithmetic {
	return accumulator.Arithmetic{Add: Updaters[Add][d], Divide: dividers[d]}
}

// dividers divide the elements in memory by a number.
var dividers = map[tensor.DType]func([]byte, int){
	tensor.Float32: func(dst []byte, n int) {
		simd.DivScalar(element.Cells[float32](dst), element.Cells[float32](dst), float32(n))
	},
	tensor.Float64: func(dst []byte, n int) {
		for i, v := range element.Cells[float64](dst) {
			element.Cells[float64](dst)[i] = v / float64(n)
		}
	},
	tensor.Float16: func(dst []byte, n int) {
		by := element.ToFloat16(float32(n)).Float()
		for i, v := range element.Cells[element.Float16](dst) {
			element.Cells[element.Float16](dst)[i] = element.ToFloat16(v.Float() / by)
		}
	},
}
