package sparse

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// timesDense is SparseTensorDenseMatMul: the product of a sparse matrix and a dense one, either of them, or both,
// transposed and conjugated.
type timesDense[T element.Numeric] struct {
	adjointA, adjointB bool
	conj               func(T) T // nil for real types
}

func (k *timesDense[T]) Compute(ctx *kernels.Context) error {
	indices, values, shape, b := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	switch {
	case b.Rank() != 2:
		return status.InvalidArgumentf("Tensor 'b' is not a matrix")
	case shape.Rank() != 1:
		return status.InvalidArgumentf("Tensor 'a_shape' is not a vector")
	case shape.Len() != 2:
		return status.InvalidArgumentf("Tensor 'a_shape' must have 2 elements")
	case values.Rank() != 1:
		return status.InvalidArgumentf("Tensor 'a_values' is not a vector")
	case indices.Rank() != 2:
		return status.InvalidArgumentf("Tensor 'a_indices' is not a matrix")
	case indices.Dim(0) != values.Len():
		return status.InvalidArgumentf("Number of rows of a_indices does not match number of entries in a_values")
	case indices.Dim(1) != 2:
		return status.InvalidArgumentf("Number of columns of a_indices does not match number of entries in a_shape")
	}
	sizes := tensor.Of[int64](shape)
	left, right := 0, 1 // the columns of the indices with the row of the result, and of b
	if k.adjointA {
		left, right = 1, 0
	}
	rowsB, columns := b.Dim(0), b.Dim(1)
	if k.adjointB {
		rowsB, columns = columns, rowsB
	}
	if int64(rowsB) != sizes[right] {
		return status.InvalidArgumentf("Cannot multiply A and B because inner dimension does not match: %d vs. %d.  Did you forget a transpose?  Dimensions of A: [%d, %d).  Dimensions of B: %v",
			sizes[right], rowsB, sizes[0], sizes[1], b.Shape())
	}
	outShape, err := shapes.ShapeOf([]int64{sizes[left], int64(columns)})
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, element.DTypeOf[T](), outShape)
	if err != nil {
		return err
	}
	layout.Zero(ctx, out)
	if out.Len() == 0 || values.Len() == 0 || b.Len() == 0 {
		return nil
	}
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	for i := range values.Len() {
		if v := at.V[2*i+right]; v < 0 || v >= int64(rowsB) {
			return status.InvalidArgumentf("k (%d) from index[%d,%d] out of bounds (>=%d)", v, i, right, rowsB)
		}
		if v := at.V[2*i+left]; v < 0 || v >= outShape[0] {
			return status.InvalidArgumentf("m (%d) from index[%d,%d] out of bounds (>=%d)", v, i, left, outShape[0])
		}
	}
	// Columns are divided, so no two workers add to the same number.
	ctx.Parallel(columns, max(1, element.CheapGrain/values.Len()), func(lo, hi int) {
		k.columns(element.ViewOf[T](out), element.ViewOf[T](values), element.ViewOf[T](b), at.V, left, right, b.Dim(1), columns, lo, hi)
	})
	return nil
}

// columns computes columns lo to hi of the result.
func (k *timesDense[T]) columns(out, values, b []T, at []int64, left, right, widthB, columns, lo, hi int) {
	for i, v := range values {
		if k.adjointA && k.conj != nil {
			v = k.conj(v)
		}
		row := int(at[2*i+right])
		to := out[int(at[2*i+left])*columns:][lo:hi]
		switch {
		case !k.adjointB:
			for n, w := range b[row*widthB:][lo:hi] {
				to[n] += v * w
			}
		case k.conj != nil:
			for n := range to {
				to[n] += v * k.conj(b[(lo+n)*widthB+row])
			}
		default:
			for n := range to {
				to[n] += v * b[(lo+n)*widthB+row]
			}
		}
	}
}

// timesDenseRows returns the rows for one element type.
func timesDenseRows[T element.Numeric](conj func(T) T) []kernels.Def {
	return halves.Rows("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		return &timesDense[T]{a.Bool("adjoint_a"), a.Bool("adjoint_b"), conj}, a.Err()
	})
}

func conj64(v complex64) complex64 { return complex(real(v), -imag(v)) }

// addDense is SparseTensorDenseAdd: it adds the values of a sparse tensor to a dense one.
func addDense(ctx *kernels.Context) error {
	indices, values, shape, b := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	switch {
	case indices.Rank() != 2:
		return status.InvalidArgumentf("Input a_indices should be a matrix but received shape: %v", indices.Shape())
	case values.Rank() != 1 || shape.Rank() != 1:
		return status.InvalidArgumentf("Inputs a_values and a_shape should be vectors but received shapes: %v and %v", values.Shape(), shape.Shape())
	case values.Len() != indices.Dim(0):
		return status.InvalidArgumentf("Dimensions %d and %d are not compatible", indices.Dim(0), values.Len())
	case shape.Len() != indices.Dim(1):
		return status.InvalidArgumentf("Dimensions %d and %d are not compatible", indices.Dim(1), shape.Len())
	case shape.Len() != b.Rank():
		return status.InvalidArgumentf("Two operands have different ranks; received: %d and %d", shape.Len(), b.Rank())
	}
	sizes, err := ctx.Ints(2)
	if err != nil {
		return err
	}
	for d, size := range b.Shape() {
		if sizes[d] != size {
			return status.InvalidArgumentf("Dimension %d does not equal (no broadcasting is supported): sparse side %d vs dense side %d", d, sizes[d], size)
		}
	}
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	rank := len(sizes)
	for i, v := range at.V {
		if v < 0 || v >= sizes[i%rank] {
			return status.InvalidArgumentf("Sparse tensor has an invalid index on dimension %d: a_indices(%d,%d) = %d, dense tensor shape: %s", i%rank, i/rank, i%rank, v, spaced(sizes))
		}
	}
	const mostRank = 5
	if rank < 1 || rank > mostRank {
		return status.InvalidArgumentf("Only tensors with ranks between 1 and 5 are currently supported.  Tensor rank: %d", rank)
	}
	out, err := ctx.Forward(3, 0, b.DType(), b.Shape())
	if err != nil {
		return err
	}
	if out != b {
		layout.CopyAll(ctx, out, b)
	}
	places, _ := shapes.Points(at.V, values.Len(), b.Shape())
	add, size := update.Updaters[update.Add][b.DType()], b.DType().Size()
	for i, place := range places {
		to := out.Data()[int(place)*size:][:size]
		add(to, to, values.Data()[i*size:][:size])
	}
	return nil
}
