package csr

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// newTranspose returns the kernel of SparseMatrixTranspose.
func newTranspose[T number](c *kernels.Construction) (typed[T], error) {
	conj, err := c.Attrs().Bool("conjugate")
	return func(ctx *kernels.Context) error {
		m, err := wantedInput(ctx, "dtype of input is not equal to 'type': %v vs. %v")
		if err != nil {
			return err
		}
		t, err := transposed[T](ctx, m, conj)
		if err != nil {
			return err
		}
		return variant.OutputCSR(ctx, t)
	}, err
}

// transposed returns a batch with rows and columns exchanged, and elements conjugated if conj is true.
func transposed[T number](ctx *kernels.Context, m *variant.CSR, conj bool) (*variant.CSR, error) {
	dims := slices.Clone(m.Dims)
	last := len(dims) - 1
	dims[last-1], dims[last] = dims[last], dims[last-1]
	t, err := variant.NewCSR(ctx.Device.Pool(), m.DType(), dims, m.Columns.Len(), nil)
	if err != nil {
		return nil, err
	}
	copy(tensor.Of[int32](t.Batches), tensor.Of[int32](m.Batches))
	each := m.Columns.Len()/m.Matrices() + 1
	ctx.Parallel(m.Matrices(), max(1, element.CheapGrain/each), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			turn(partOf[T](t, b), partOf[T](m, b))
		}
	})
	if err := ctx.Ended(); err != nil {
		t.Release()
		return nil, err
	}
	if conj {
		conjugateAll[T](ctx, t.Values)
	}
	return t, nil
}

// turn writes the transpose of p into t, whose rows must be empty.
func turn[T number](t, p part[T]) {
	for _, c := range p.column {
		t.from[c+1]++
	}
	sumUp(t.from)
	// From here on, from[c] is the position of row c's next element; in the end, it is where row c+1 begins.
	for i := range p.rows {
		values := p.values(i)
		for k, c := range p.row(i) {
			to := t.from[c]
			t.column[to], t.value[to] = int32(i), values[k]
			t.from[c]++
		}
	}
	copy(t.from[1:], t.from[:t.rows])
	t.from[0] = 0
}

// conjugators conjugate the elements of complex tensors.
var conjugators = map[tensor.DType]func(ctx *kernels.Context, t *tensor.Tensor){
	tensor.Complex64: conjugateAll[complex64], tensor.Complex128: conjugateAll[complex128],
}

// conjugated is Conj of a variant.
func conjugated(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if t.Rank() != 0 {
		return status.InvalidArgumentf("Non-scalar variants are not supported.")
	}
	m, ok := t.Variants()[0].(*variant.CSR)
	if !ok {
		return variant.NoUnary("CONJ", t.Variants()[0])
	}
	conj := conjugators[m.DType()]
	if conj == nil {
		m.Retain()
		return variant.OutputCSR(ctx, m)
	}
	values, err := tensor.New(ctx.Device.Pool(), m.DType(), m.Values.Shape())
	if err != nil {
		return err
	}
	tensor.Copy(values.Data(), m.Values.Data())
	conj(ctx, values)
	return variant.OutputCSR(ctx, m.Like(values))
}
