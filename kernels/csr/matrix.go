package csr

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// places are the positions of one matrix's elements: those of row i are from[i] to from[i+1].
type places struct {
	rows, columns int
	from, column  []int32
}

// placesOf returns the places of matrix b of a batch.
func placesOf(m *variant.CSR, b int) places {
	rows, columns := m.Size()
	at := tensor.Of[int32](m.Batches)
	return places{rows, columns, tensor.Of[int32](m.Rows)[b*(rows+1):][:rows+1], tensor.Of[int32](m.Columns)[at[b]:at[b+1]]}
}

// row returns the columns of the elements of row i.
func (p places) row(i int) []int32 { return p.column[p.from[i]:p.from[i+1]] }

// part is one matrix of a batch.
type part[T number] struct {
	places
	value []T
}

func partOf[T number](m *variant.CSR, b int) part[T] {
	at := tensor.Of[int32](m.Batches)
	return part[T]{placesOf(m, b), tensor.Of[T](m.Values)[at[b]:at[b+1]]}
}

// values returns the elements of row i.
func (p part[T]) values(i int) []T { return p.value[p.from[i]:p.from[i+1]] }

// typedInput returns the matrix at input i, which must have type want. The error text is formatted with both types.
func typedInput(ctx *kernels.Context, i int, want tensor.DType, text string) (*variant.CSR, error) {
	m, err := variant.CSRInput(ctx, i)
	if err == nil && m.DType() != want {
		err = status.InvalidArgumentf(text, m.DType(), want)
	}
	return m, err
}

// wantedInput is typedInput of input 0 for ops that declare the elements' type.
func wantedInput(ctx *kernels.Context, text string) (*variant.CSR, error) {
	want, err := ctx.Node.Attrs.Type("type")
	if err != nil {
		return nil, err
	}
	return typedInput(ctx, 0, want, text)
}

// squareSize returns the number of rows of square matrices.
func squareSize(m *variant.CSR) (int, error) {
	rows, columns := m.Size()
	if rows != columns {
		return 0, status.InvalidArgumentf("sparse matrix must be square; got: %d != %d", rows, columns)
	}
	return rows, nil
}

// room allocates a matrix or a batch with counts[i] elements in row i. Columns and values are not set.
func room(ctx *kernels.Context, dtype tensor.DType, dims tensor.Shape, counts []int32) (*variant.CSR, error) {
	total := int64(0)
	for _, n := range counts {
		total += int64(n)
	}
	if total > math.MaxInt32 {
		return nil, status.InvalidArgumentf("The sparse matrices would have %d elements, the limit is %d", total, math.MaxInt32)
	}
	out, err := variant.NewCSR(ctx.Device.Pool(), dtype, dims, int(total), nil)
	if err != nil {
		return nil, err
	}
	out.SetCounts(counts)
	return out, nil
}

// sumUp converts counts of elements, each stored at the next index, to start positions.
func sumUp(counts []int32) {
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
}

// conjugate conjugates numbers; real ones stay unchanged.
func conjugate[T number](v []T) {
	switch v := any(v).(type) {
	case []complex64:
		for i, e := range v {
			v[i] = complex(real(e), -imag(e))
		}
	case []complex128:
		for i, e := range v {
			v[i] = cmplx.Conj(e)
		}
	}
}

// conjugateAll conjugates the elements of a tensor, on as many cores as are worthwhile.
func conjugateAll[T number](ctx *kernels.Context, t *tensor.Tensor) {
	v := tensor.Of[T](t)
	ctx.Parallel(len(v), element.CheapGrain, func(lo, hi int) { conjugate(v[lo:hi]) })
}
