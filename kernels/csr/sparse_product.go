package csr

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// newSparseProduct returns the kernel of SparseMatrixSparseMatMul. Its result has an element wherever a pair of elements meets, even if
// their sum is zero.
func newSparseProduct[T number](c *kernels.Construction) (typed[T], error) {
	left, err1 := operandOf(c, "a")
	right, err2 := operandOf(c, "b")
	return func(ctx *kernels.Context) error {
		a, b, err := sparseFactors(ctx, element.DTypeOf[T](), left, right)
		if err != nil {
			return err
		}
		if a, err = turned[T](ctx, a, left); err != nil {
			return err
		}
		defer a.Release()
		if b, err = turned[T](ctx, b, right); err != nil {
			return err
		}
		defer b.Release()
		return sparseTimesSparse[T](ctx, a, b)
	}, args.FirstError(err1, err2)
}

// sparseFactors reads the factors and rejects those whose shapes do not match.
func sparseFactors(ctx *kernels.Context, dtype tensor.DType, left, right operand) (a, b *variant.CSR, err error) {
	if a, err = variant.CSRInput(ctx, 0); err != nil {
		return nil, nil, err
	}
	if b, err = variant.CSRInput(ctx, 1); err != nil {
		return nil, nil, err
	}
	switch {
	case a.DType() != dtype:
		err = status.InvalidArgumentf("dtype of a is not equal to 'type': %v vs. %v", a.DType(), dtype)
	case b.DType() != dtype:
		err = status.InvalidArgumentf("dtype of b is not equal to 'type': %v vs. %v", b.DType(), dtype)
	case a.Matrices() != b.Matrices() && a.Matrices() != 1 && b.Matrices() != 1:
		err = status.InvalidArgumentf("Batch sizes of A and B are not compatible.  Batch sizes are: %d vs. %d", a.Matrices(), b.Matrices())
	case len(a.Dims) != len(b.Dims):
		err = status.InvalidArgumentf("Ranks of A and B must match, saw: %d vs. %d.", len(a.Dims), len(b.Dims))
	}
	if err != nil {
		return nil, nil, err
	}
	x, y := left.shape(a.Dims), right.shape(b.Dims)
	if last := len(x) - 1; x[last] != y[last-1] {
		err = status.InvalidArgumentf("Inner product dimensions of A and B do not agree.  Shapes are: %v vs. %v", x, y)
	}
	return a, b, err
}

// shape returns the shape of a factor as it enters the product.
func (o operand) shape(s tensor.Shape) tensor.Shape {
	if !o.transpose {
		return s
	}
	last := len(s) - 1
	return shapes.Replaced(s, last-1, last+1, s[last], s[last-1])
}

// sparseTimesSparse sets output 0 to the product. The first of two passes counts the elements of each row, to allocate memory for these
// alone.
func sparseTimesSparse[T number](ctx *kernels.Context, a, b *variant.CSR) error {
	rows, _ := a.Size()
	_, columns := b.Size()
	dims := shapes.Replaced(a.Dims, len(a.Dims)-2, len(a.Dims), int64(rows), int64(columns))
	matrices := max(a.Matrices(), b.Matrices())
	if len(dims) == 3 {
		dims[0] = int64(matrices)
	}
	p := &sparsePair{a, b, matrices, rows, columns}
	size, err := tensor.Shape{int64(matrices), int64(rows)}.NumElements()
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	if size > math.MaxInt32 {
		return status.InvalidArgumentf("The product of the sparse matrices would have %d rows, the limit is %d", size, math.MaxInt32)
	}
	counts, err := kernels.Scratch[int32](&m, int(size))
	if err != nil {
		return err
	}
	if err := p.distinct(ctx, func(r int, columns []int32) { counts[r] = int32(len(columns)) }); err != nil {
		return err
	}
	out, err := room(ctx, element.DTypeOf[T](), dims, counts)
	if err != nil {
		return err
	}
	if err := multiplySparse[T](ctx, p, out); err != nil {
		out.Release()
		return err
	}
	return variant.OutputCSR(ctx, out)
}

// sparsePair holds the factors of a product, already turned. A single matrix is multiplied with each matrix of the other batch.
type sparsePair struct {
	a, b                    *variant.CSR
	matrices, rows, columns int
}

// of returns the index of a factor's matrix in product i.
func (p *sparsePair) of(m *variant.CSR, i int) int { return i * element.OneIf(m.Matrices() > 1) }

// grain returns the minimum number of the product's rows per core, enough to outweigh its working memory.
func (p *sparsePair) grain() int {
	inner, _ := p.b.Size()
	perRow := (p.a.Columns.Len()/max(1, p.a.Matrices()*p.rows) + 1) * (p.b.Columns.Len()/max(1, p.b.Matrices()*inner) + 1)
	return max(1, element.CheapGrain/perRow, p.columns/perRow)
}

// distinct calls take for each row of the products with the columns of its elements, in the order in which they are met. take may modify
// the list, and is called on several cores.
func (p *sparsePair) distinct(ctx *kernels.Context, take func(r int, columns []int32)) error {
	return element.WithScratch(ctx, p.matrices*p.rows, p.grain(), 2*p.columns, func(work []int32, lo, hi int) {
		seen, list := work[:p.columns], work[p.columns:]
		clear(seen)
		for r := lo; r < hi; r++ {
			x, y := placesOf(p.a, p.of(p.a, r/p.rows)), placesOf(p.b, p.of(p.b, r/p.rows))
			n := 0
			for _, k := range x.row(r % p.rows) {
				for _, c := range y.row(int(k)) {
					if seen[c] != int32(r+1) {
						seen[c] = int32(r + 1)
						list[n] = c
						n++
					}
				}
			}
			take(r, list[:n])
		}
	})
}

// multiplySparse computes the elements of the products, whose places are already set.
func multiplySparse[T number](ctx *kernels.Context, p *sparsePair, out *variant.CSR) error {
	err := p.distinct(ctx, func(r int, columns []int32) {
		slices.Sort(columns)
		copy(placesOf(out, r/p.rows).row(r%p.rows), columns)
	})
	if err != nil {
		return err
	}
	return element.WithScratch(ctx, p.matrices*p.rows, p.grain(), p.columns, func(sums []T, lo, hi int) {
		for r := lo; r < hi; r++ {
			x, y := partOf[T](p.a, p.of(p.a, r/p.rows)), partOf[T](p.b, p.of(p.b, r/p.rows))
			multiplyRow(partOf[T](out, r/p.rows), r%p.rows, x, y, sums)
		}
	})
}

// multiplyRow sets the values of row i of the product of x and y. sums is working memory with one number per column of y.
func multiplyRow[T number](out part[T], i int, x, y part[T], sums []T) {
	var zero T
	for _, c := range out.row(i) {
		sums[c] = -zero // so that a sum of negative zeros stays one
	}
	factors := x.values(i)
	for at, k := range x.row(i) {
		f, row := factors[at], y.values(int(k))
		for j, c := range y.row(int(k)) {
			sums[c] += f * row[j]
		}
	}
	values := out.values(i)
	for at, c := range out.row(i) {
		values[at] = sums[c]
	}
}
