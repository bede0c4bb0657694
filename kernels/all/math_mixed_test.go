package all_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// Products whose operands and result each have a type attribute, and the positions of nonzero elements.
func TestMixedProductsAndPlaces(t *testing.T) {
	const one, two, three = 0x3c00, 0x4000, 0x4200 // in half precision
	same := func(d tensor.DType) kt.Attrs { return kt.Attrs{"Ta": d, "Tb": d, "Tout": d} }
	kt.Check(t,
		kt.Case{Name: "float", Op: "BatchMatMulV3", Attrs: same(tensor.Float32),
			Inputs: []any{kt.F32(kt.S(2, 1, 2), 1, 2, 3, 4), kt.F32(kt.S(2, 1), 5, 6)}, Want: []*tensor.Tensor{kt.F32(kt.S(2, 1, 1), 17, 39)}},
		kt.Case{Name: "double", Op: "BatchMatMulV3", Attrs: same(tensor.Float64),
			Inputs: []any{kt.F64(kt.S(1, 2), 1, 2), kt.F64(kt.S(2, 2), 1, 2, 3, 4)}, Want: []*tensor.Tensor{kt.F64(kt.S(1, 2), 7, 10)}},
		kt.Case{Name: "half", Op: "BatchMatMulV3", Attrs: same(tensor.Float16),
			Inputs: []any{kt.Of[uint16](tensor.Float16, kt.S(1, 2), one, two), kt.Of[uint16](tensor.Float16, kt.S(2, 1), one, one)},
			Want:   []*tensor.Tensor{kt.Of[uint16](tensor.Float16, kt.S(1, 1), three)}},
		kt.Case{Name: "bfloat16", Op: "BatchMatMulV3", Attrs: same(tensor.BFloat16), // whose bits are the upper half of float's
			Inputs: []any{kt.Of[uint16](tensor.BFloat16, kt.S(1, 2), 0x3f80, 0x4000), kt.Of[uint16](tensor.BFloat16, kt.S(2, 1), 0x3f80, 0x3f80)},
			Want:   []*tensor.Tensor{kt.Of[uint16](tensor.BFloat16, kt.S(1, 1), 0x4040)}},
		kt.Case{Op: "Where", Inputs: []any{kt.I32(kt.S(2, 2), 0, 1, 2, 0)}, Want: []*tensor.Tensor{kt.I64(kt.S(2, 2), 0, 1, 1, 0)}},
	)
}
