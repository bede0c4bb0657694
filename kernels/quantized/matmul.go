package quantized

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// newMatMul returns the kernel of QuantizedMatMul.
func newMatMul(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	turnA, turnB := a.Bool("transpose_a"), a.Bool("transpose_b")
	return kernels.Func(func(ctx *kernels.Context) error { return matMul(ctx, turnA, turnB) }), a.Err()
}

// matMul multiplies matrices of the numbers' distances from zero. Sums wrap at 32 bits.
func matMul(ctx *kernels.Context, turnA, turnB bool) error {
	if err := checkTypes(ctx, tensor.QUint8, tensor.QUint8, tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float32); err != nil {
		return err
	}
	for i, name := range []string{"min_a", "max_a", "min_b", "max_b"} {
		if t := ctx.Input(2 + i); t.Len() != 1 || i == 0 && t.Rank() != 0 {
			return status.InvalidArgumentf("%s must be a scalar, but got shape%v", name, t.Shape())
		}
	}
	end := func(i int) float32 { return tensor.Of[float32](ctx.Input(i))[0] }
	as, bs := span{end(2), end(3)}, span{end(4), end(5)}
	if !(as.max > as.min) {
		return status.InvalidArgumentf("max_a must be larger than min_a.")
	}
	if !(bs.max > bs.min) {
		return status.InvalidArgumentf("max_b must be larger than min_b.")
	}
	a, b := ctx.Input(0), ctx.Input(1)
	for i, t := range []*tensor.Tensor{a, b} {
		if t.Rank() != 2 {
			return status.InvalidArgumentf("In[%d] is not a matrix", i)
		}
	}
	rows, inner := a.Dim(element.OneIf(turnA)), a.Dim(1-element.OneIf(turnA))
	columns := b.Dim(1 - element.OneIf(turnB))
	if inner != b.Dim(element.OneIf(turnB)) {
		return status.InvalidArgumentf("Matrix size-incompatible: In[0]: %v, In[1]: %v", a.Shape(), b.Shape())
	}
	out, err := ctx.Allocate(0, tensor.QInt32, tensor.Shape{int64(rows), int64(columns)})
	if err != nil {
		return err
	}
	// The strides of a and b: along the sum, and from one row of a, or column of b, to the next.
	stepA, nextA, stepB, nextB := 1, inner, columns, 1
	if turnA {
		stepA, nextA = rows, 1
	}
	if turnB {
		stepB, nextB = 1, inner
	}
	x, y, dst := tensor.Of[uint8](a), tensor.Of[uint8](b), tensor.Of[int32](out)
	zeroA, zeroB := int32(unclamped[uint8](0, as)), int32(unclamped[uint8](0, bs))
	ctx.Parallel(rows, max(1, element.CheapGrain/max(1, columns*inner)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			row := dst[r*columns:][:columns]
			clear(row)
			for k := range inner {
				v := int32(x[r*nextA+k*stepA]) - zeroA
				for c := range row {
					row[c] += v * (int32(y[k*stepB+c*nextB]) - zeroB)
				}
			}
		}
	})
	return product[uint8, uint8, int32](as, bs).put(ctx, 1)
}
