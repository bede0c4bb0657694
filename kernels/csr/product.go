package csr

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// operand defines how a factor enters a product.
type operand struct{ transpose, conj bool }

// operandOf reads the attributes of factor a or b.
func operandOf(c *kernels.Construction, name string) (operand, error) {
	transpose, err1 := c.Attrs().Bool("transpose_" + name)
	adjoint, err2 := c.Attrs().Bool("adjoint_" + name)
	err := args.FirstError(err1, err2)
	if err == nil && adjoint && transpose {
		err = status.InvalidArgumentf("Only one of adjoint_%s and transpose_%s may be true.", name, name)
	}
	return operand{transpose || adjoint, adjoint}, err
}

// turned returns a factor as it enters the product. The caller releases it.
func turned[T number](ctx *kernels.Context, m *variant.CSR, o operand) (*variant.CSR, error) {
	if !o.transpose {
		m.Retain()
		return m, nil
	}
	return transposed[T](ctx, m, o.conj)
}

// product is SparseMatrixMatMul: the product of a sparse and a dense matrix.
type product[T number] struct {
	a, b            operand
	transpose, conj bool // of the result
}

func newProduct[T number](c *kernels.Construction) (typed[T], error) {
	var p product[T]
	var errs [4]error
	p.a, errs[0] = operandOf(c, "a")
	p.b, errs[1] = operandOf(c, "b")
	p.transpose, errs[2] = c.Attrs().Bool("transpose_output")
	p.conj, errs[3] = c.Attrs().Bool("conjugate_output")
	return p.compute, args.FirstError(errs[:]...)
}

func (p product[T]) compute(ctx *kernels.Context) error {
	a, err := variant.CSRInput(ctx, 0)
	if err != nil {
		return err
	}
	b := ctx.Input(1)
	if err := p.check(a, b); err != nil {
		return err
	}
	if a, err = turned[T](ctx, a, p.a); err != nil {
		return err
	}
	defer a.Release()
	if b, err = p.dense(ctx, b); err != nil {
		return err
	}
	defer b.Release()
	rows, _ := a.Size()
	columns := b.Dim(b.Rank() - 1)
	shape := shapes.Replaced(a.Dims, len(a.Dims)-2, len(a.Dims), int64(rows), int64(columns))
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	if !p.transpose {
		out, err := ctx.Allocate(0, b.DType(), shape)
		if err == nil {
			p.multiply(ctx, out, a, b)
		}
		return err
	}
	whole, err := tensor.New(ctx.Device.Pool(), b.DType(), shape)
	if err != nil {
		return err
	}
	defer whole.Release()
	out, err := ctx.Allocate(0, b.DType(), shapes.Replaced(shape, len(shape)-2, len(shape), int64(columns), int64(rows)))
	if err != nil {
		return err
	}
	p.multiply(ctx, whole, a, b)
	layout.Move(ctx, out, whole, layout.Permuted([]int{a.Matrices(), rows, columns}, 0, 2, 1))
	return nil
}

// check rejects factors whose shapes do not match.
func (p product[T]) check(a *variant.CSR, b *tensor.Tensor) error {
	rank := len(a.Dims)
	switch {
	case a.DType() != b.DType():
		return status.InvalidArgumentf("Input types don't match.  a.dtype == %v vs. b.dtype == %v", a.DType(), b.DType())
	case rank != b.Rank():
		return status.InvalidArgumentf("Ranks of a and b must match, saw: %d vs. %d.", rank, b.Rank())
	case rank == 3 && a.Matrices() != b.Dim(0):
		return status.InvalidArgumentf("Batch sizes of a and b must match, saw: %d vs. %d.", a.Matrices(), b.Dim(0))
	}
	rows, inner := a.Size()
	if p.a.transpose {
		inner = rows
	}
	other := b.Dim(rank - 2)
	if p.b.transpose {
		other = b.Dim(rank - 1)
	}
	if inner != other {
		return status.InvalidArgumentf("Inner product dimensions of A and B do not agree. Shapes are: %v vs. %v", a.Dims, b.Shape())
	}
	return nil
}

// dense returns the second factor as it enters the product. The caller releases it.
func (p product[T]) dense(ctx *kernels.Context, b *tensor.Tensor) (*tensor.Tensor, error) {
	if !p.b.transpose {
		return b.Retain(), nil
	}
	rank := b.Rank()
	rows, columns := b.Dim(rank-2), b.Dim(rank-1)
	t, err := tensor.New(ctx.Device.Pool(), b.DType(), shapes.Replaced(b.Shape(), rank-2, rank, int64(columns), int64(rows)))
	if err != nil {
		return nil, err
	}
	matrices := 1
	if rank == 3 {
		matrices = b.Dim(0)
	}
	layout.Move(ctx, t, b, layout.Permuted([]int{matrices, rows, columns}, 0, 2, 1))
	if p.b.conj {
		conjugateAll[T](ctx, t)
	}
	return t, nil
}

// multiply computes the product of factors that are already turned.
func (p product[T]) multiply(ctx *kernels.Context, out *tensor.Tensor, a *variant.CSR, b *tensor.Tensor) {
	rows, inner := a.Size()
	n := b.Dim(b.Rank() - 1)
	if rows == 0 || n == 0 {
		return
	}
	dst, src := tensor.Of[T](out), tensor.Of[T](b)
	ctx.Parallel(a.Matrices()*rows, rowGrain(a, n), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			of, i := partOf[T](a, r/rows), r%rows
			to := dst[r*n:][:n]
			addRows(to, of.row(i), of.values(i), src[r/rows*inner*n:][:inner*n])
			if p.conj {
				conjugate(to)
			}
		}
	})
}

// addRows sets dst to the weighted sum of rows of src, each as long as dst.
func addRows[T number](dst []T, rows []int32, factors []T, src []T) {
	clear(dst)
	for k, r := range rows {
		f := factors[k]
		from := src[int(r)*len(dst):][:len(dst)]
		for j, v := range from {
			dst[j] += f * v
		}
	}
}
