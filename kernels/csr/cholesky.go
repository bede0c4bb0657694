package csr

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// cholesky factors self-adjoint positive definite matrices, after permuting their rows and columns into the order of input 1. Only the
// lower triangle is used.
func cholesky(ctx *kernels.Context) error {
	m, err := wantedInput(ctx, "Asked for a CSRSparseMatrix of type %[2]v but saw dtype: %[1]v")
	if err != nil {
		return err
	}
	n, err := squareSize(m)
	if err != nil {
		return err
	}
	orders := ctx.Input(1)
	if err := checkOrders(m, orders.Shape(), n); err != nil {
		return err
	}
	meter := ctx.Meter()
	defer meter.Done()
	counts, err := kernels.Scratch[int32](&meter, m.Matrices()*n)
	if err != nil {
		return err
	}
	// Count the factors' elements first, to allocate memory for these alone.
	orderOf := func(b int) []int32 { return tensor.Of[int32](orders)[b*n:][:n] }
	err = eachMatrix(ctx, m, 10, func(own *kernels.Meter, b int) error {
		f, err := newFactor(own, placesOf(m, b), orderOf(b))
		if err == nil {
			copy(counts[b*n:], f.counts)
		}
		return err
	})
	if err != nil {
		return err
	}
	out, err := room(ctx, m.DType(), m.Dims, counts)
	if err != nil {
		return err
	}
	starts := tensor.Of[int32](m.Batches)
	err = eachMatrix(ctx, m, 100, func(own *kernels.Meter, b int) error {
		f, err := newFactor(own, placesOf(m, b), orderOf(b))
		if err != nil {
			return err
		}
		values, err := kernels.Scratch[complex128](own, int(starts[b+1]-starts[b]))
		if err != nil {
			return err
		}
		if err := element.LoadNumbers(values, m.Values, int(starts[b])); err != nil {
			return err
		}
		return f.compute(own, values, out, b)
	})
	if err != nil {
		out.Release()
		return err
	}
	return variant.OutputCSR(ctx, out)
}

// checkOrders rejects orders that do not fit the matrices.
func checkOrders(m *variant.CSR, shape tensor.Shape, n int) error {
	rank := len(m.Dims)
	switch {
	case len(shape)+1 != rank:
		return status.InvalidArgumentf("sparse matrix must have the same rank as permutation; got: %d != %d + 1.", rank, len(shape))
	case shape[rank-2] != int64(n):
		return status.InvalidArgumentf("permutation must have the same number of elements in each batch as the number of rows in sparse matrix; got: %d != %d", shape[rank-2], n)
	case rank == 3 && shape[0] != m.Dims[0]:
		return status.InvalidArgumentf("permutation must have the same batch size as sparse matrix; got: %d != %d", shape[0], m.Dims[0])
	}
	return nil
}

// factor is the Cholesky factor of one matrix, row by row: the elements it has, and what its rows need from the matrix.
type factor struct {
	n int
	// The elements of the matrix in its new order, on and below the diagonal: their columns, and the sources of their values, flipped if
	// they are conjugated.
	from, column, source []int32
	// parent is, for each column, the first row below the diagonal that has an element in it; -1 if there is none.
	parent []int32
	// counts is the number of elements of each row of the factor, and below the number of each column below the diagonal.
	counts, below []int32
	mark          []int32
}

// newFactor permutes the matrix and finds the elements of the factor.
func newFactor(meter *kernels.Meter, p places, order []int32) (*factor, error) {
	const tables = 6
	n := p.rows
	work, err := kernels.Scratch[int32](meter, tables*(n+1)+2*len(p.column))
	if err != nil {
		return nil, err
	}
	cut := func(n int) []int32 {
		part := work[:n:n]
		work = work[n:]
		return part
	}
	f := &factor{n: n, from: cut(n + 1), column: cut(len(p.column)), source: cut(len(p.column)), parent: cut(n), counts: cut(n), below: cut(n), mark: cut(n)}
	to := cut(n) // where each row went
	for i := range to {
		to[i] = root
	}
	for i, r := range order {
		if r < 0 || int(r) >= n || to[r] != root {
			return nil, status.InvalidArgumentf("permutation must hold each of the numbers from 0 to %d once, but has %d at %d", n-1, r, i)
		}
		to[r] = int32(i)
	}
	f.arrange(p, to)
	f.analyse()
	return f, nil
}

// arrange sorts the elements of the lower triangle into the rows of the new order.
func (f *factor) arrange(p places, to []int32) {
	each := func(take func(i, j, source int32)) {
		for r := range p.rows {
			for k, c := range p.row(r) {
				source := p.from[r] + int32(k)
				switch i, j := to[r], to[c]; {
				case c > int32(r):
				case i >= j:
					take(i, j, source)
				default:
					take(j, i, flip(source))
				}
			}
		}
	}
	each(func(i, _, _ int32) { f.from[i+1]++ })
	sumUp(f.from)
	next := f.mark
	copy(next, f.from)
	each(func(i, j, source int32) {
		f.column[next[i]], f.source[next[i]] = j, source
		next[i]++
	})
}

// analyse finds the elements of the factor. A row has one in each column that can be reached from the columns of the matrix's elements by
// going from parent to parent.
func (f *factor) analyse() {
	for k := range int32(f.n) {
		f.parent[k], f.mark[k] = root, k
		f.counts[k]++
		for _, j := range f.column[f.from[k]:f.from[k+1]] {
			for ; f.mark[j] != k; j = f.parent[j] {
				if f.parent[j] == root {
					f.parent[j] = k
				}
				f.counts[k]++
				f.below[j]++
				f.mark[j] = k
			}
		}
	}
}

// columns holds the known rows of the factor by columns, and working memory.
type columns struct {
	start, end []int32 // of each column, in row and value
	row        []int32
	value      []complex128
	diagonal   []float64
	sum        []complex128 // the remainder of a row of the matrix
	reached    []int32      // the columns in which the row has elements
}

func (f *factor) newColumns(meter *kernels.Meter, total int) (*columns, error) {
	ints, err1 := kernels.Scratch[int32](meter, 3*f.n+total)
	numbers, err2 := kernels.Scratch[complex128](meter, f.n+total)
	reals, err3 := kernels.Scratch[float64](meter, f.n)
	if err := args.FirstError(err1, err2, err3); err != nil {
		return nil, err
	}
	n := f.n
	c := &columns{start: ints[:n], end: ints[n : 2*n], reached: ints[2*n : 3*n], row: ints[3*n:], sum: numbers[:n], value: numbers[n:], diagonal: reals}
	at := int32(0)
	for j, m := range f.below {
		c.start[j], c.end[j] = at, at
		at += m
	}
	return c, nil
}

// compute writes the factor as matrix b of out, whose places are already set.
func (f *factor) compute(meter *kernels.Meter, matrix []complex128, out *variant.CSR, b int) error {
	p := placesOf(out, b)
	total := len(p.column)
	c, err := f.newColumns(meter, total-f.n)
	if err != nil {
		return err
	}
	values, err := kernels.Scratch[complex128](meter, total)
	if err != nil {
		return err
	}
	for k := range f.n {
		f.mark[k] = root
	}
	for k := range f.n {
		if !f.computeRow(c, matrix, int32(k)) {
			return status.InvalidArgumentf("Sparse Cholesky factorization failed for batch index %d. The input might not be valid.", b)
		}
	}
	next := f.mark // position of each row's next element
	copy(next, p.from)
	put := func(i, j int32, v complex128) {
		p.column[next[i]], values[next[i]] = j, v
		next[i]++
	}
	for j := range int32(f.n) {
		put(j, j, complex(c.diagonal[j], 0))
		for at := c.start[j]; at < c.end[j]; at++ {
			put(c.row[at], j, c.value[at])
		}
	}
	element.StoreNumbers(out.Values, int(tensor.Of[int32](out.Batches)[b]), values)
	return nil
}

// computeRow computes row k of the factor by solving a triangular system of the rows before it. It returns false if the matrix is not
// positive definite.
func (f *factor) computeRow(c *columns, matrix []complex128, k int32) bool {
	top := f.reach(c, matrix, k)
	left := real(c.sum[k])
	c.sum[k] = 0
	for _, j := range c.reached[top:] {
		x := c.sum[j] / complex(c.diagonal[j], 0)
		c.sum[j] = 0
		for at := c.start[j]; at < c.end[j]; at++ {
			c.sum[c.row[at]] -= c.value[at] * x
		}
		left -= real(x)*real(x) + imag(x)*imag(x)
		c.row[c.end[j]], c.value[c.end[j]] = k, cmplx.Conj(x)
		c.end[j]++
	}
	c.diagonal[k] = math.Sqrt(left)
	return !(left <= 0)
}

// reach sets sum to the conjugates of row k of the matrix, and reached[top:] to the columns in which row k of the factor has elements, each
// before its parent.
func (f *factor) reach(c *columns, matrix []complex128, k int32) (top int) {
	top = f.n
	f.mark[k] = k
	for at := f.from[k]; at < f.from[k+1]; at++ {
		j, source := f.column[at], f.source[at]
		if source < 0 {
			c.sum[j] += matrix[flip(source)]
		} else {
			c.sum[j] += cmplx.Conj(matrix[source])
		}
		n := 0
		for ; f.mark[j] != k; j = f.parent[j] {
			c.reached[n] = j
			n++
			f.mark[j] = k
		}
		for n > 0 {
			n--
			top--
			c.reached[top] = c.reached[n]
		}
	}
	return top
}
