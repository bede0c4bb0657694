package csr

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// denseToCSR takes the elements of a dense tensor at the given indices.
func denseToCSR(ctx *kernels.Context) error {
	dense, indices := ctx.Input(0), ctx.Input(1)
	rank := dense.Rank()
	switch {
	case rank != 2 && rank != 3:
		return status.InvalidArgumentf("params must have rank == 2 or 3; but saw shape: %v", dense.Shape())
	case indices.Rank() != 2:
		return status.InvalidArgumentf("indices must be a matrix, but saw shape: %v", indices.Shape())
	case indices.Dim(1) != rank:
		return status.InvalidArgumentf("indices.shape[1] must be equal to the rank of params, but saw: %d vs. %d", indices.Dim(1), rank)
	}
	at, n := tensor.Of[int64](indices), indices.Dim(0)
	if n > 0 && dense.Len() == 0 {
		return status.InvalidArgumentf("Requested more than 0 entries, but params is empty.  Params shape: %v", dense.Shape())
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.TakeMany(n, 8); err != nil {
		return err
	}
	from, bad := shapes.Points(at, n, dense.Shape())
	if bad >= 0 {
		return status.InvalidArgumentf("indices[%d] = [%s] does not index into param shape %v, node name: %s",
			bad, joined(at[bad*rank:][:rank]), dense.Shape(), ctx.Node.Name)
	}
	values, err := tensor.New(ctx.Device.Pool(), dense.DType(), tensor.Shape{int64(n)})
	if err != nil {
		return err
	}
	if err := layout.MoveAt(ctx, values, dense, nil, from, 1, n); err != nil {
		values.Release()
		return err
	}
	return compress(ctx, dense.Shape(), at, values)
}

// sparseToCSR compresses the rows of a sparse tensor, whose values it keeps.
func sparseToCSR(ctx *kernels.Context) error {
	indices, values, dims := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case indices.Rank() != 2:
		return status.InvalidArgumentf("Sparse indices must be rank 2 but is rank %d", indices.Rank())
	case values.Rank() != 1:
		return status.InvalidArgumentf("Sparse values must be rank 1 but is rank %d", values.Rank())
	case dims.Rank() != 1:
		return status.InvalidArgumentf("Sparse shape must be rank 1 but is rank %d", dims.Rank())
	case values.Len() != indices.Dim(0):
		return status.InvalidArgumentf("Number of elements in indices (%d) and values (%d) do not match", indices.Dim(0), values.Len())
	case dims.Len() != indices.Dim(1):
		return status.InvalidArgumentf("Index rank (%d) and shape rank (%d) do not match", indices.Dim(1), dims.Len())
	}
	at, shape := tensor.Of[int64](indices), tensor.Shape(tensor.Of[int64](dims))
	for i := range values.Len() {
		index := at[i*len(shape):][:len(shape)]
		for d, v := range index {
			if v < 0 || v >= shape[d] {
				return status.InvalidArgumentf("Sparse index tuple indices[%d, :] = [%s] is out of bounds", i, joined(index))
			}
		}
	}
	if len(shape) != 2 && len(shape) != 3 {
		return status.InvalidArgumentf("SparseTensor must have rank 2 or 3; but indices has rank: %d", len(shape))
	}
	for _, d := range shape {
		if d < 0 {
			return status.InvalidArgumentf("Dimension %d must be >= 0", d)
		}
	}
	return compress(ctx, shape, at, values.Retain())
}

func joined(index []int64) string {
	list := make([]string, len(index))
	for i, v := range index {
		list[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(list, ", ")
}

// compress sets output 0 to the matrix with the values, which it takes over, at the indices. These must lie within the shape. As in
// TensorFlow, the elements stay in their input order: the order of rows is not checked. The order of matrices is, since otherwise elements
// of one matrix would be counted as another's.
func compress(ctx *kernels.Context, shape tensor.Shape, at []int64, values *tensor.Tensor) error {
	n, rank := values.Len(), len(shape)
	m, err := variant.NewCSR(ctx.Device.Pool(), values.DType(), shape, n, values)
	if err != nil {
		return err
	}
	starts, rows, columns := tensor.Of[int32](m.Batches), tensor.Of[int32](m.Rows), tensor.Of[int32](m.Columns)
	height, _ := m.Size()
	last := int64(0)
	for i := range n {
		index, b := at[i*rank:][:rank], int64(0)
		if rank == 3 {
			b = index[0]
		}
		if b < last {
			m.Release()
			return status.InvalidArgumentf("The elements of a batch of sparse matrices must come matrix by matrix, but indices[%d] is of matrix %d after one of %d", i, b, last)
		}
		last = b
		starts[b+1]++
		rows[int(b)*(height+1)+int(index[rank-2])+1]++
		columns[i] = int32(index[rank-1])
	}
	sumUp(starts)
	for b := range m.Matrices() {
		sumUp(rows[b*(height+1):][:height+1])
	}
	return variant.OutputCSR(ctx, m)
}

// csrToDense writes the elements into a tensor of zeros. If several have the same position, the last one counts.
func csrToDense(ctx *kernels.Context) error {
	m, err := wantedInput(ctx, "Asked for a CSRSparseMatrix of type %[2]v but saw dtype: %[1]v")
	if err != nil {
		return err
	}
	if _, err := m.Dims.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, m.DType(), m.Dims)
	if err != nil {
		return err
	}
	layout.Zero(ctx, out)
	meter := ctx.Meter()
	defer meter.Done()
	to, err := kernels.Scratch[int64](&meter, m.Columns.Len())
	if err != nil {
		return err
	}
	if err := eachRow(ctx, m, func(b, i, first int, row []int32, p places) {
		for k, c := range row {
			to[first+k] = (int64(b)*int64(p.rows)+int64(i))*int64(p.columns) + int64(c)
		}
	}); err != nil {
		return err
	}
	return layout.MoveAt(ctx, out, m.Values, to, nil, 1, len(to))
}

// csrToSparse outputs a sparse tensor with the same values.
func csrToSparse(ctx *kernels.Context) error {
	m, err := wantedInput(ctx, "Expected a CSRSparseMatrix of type %[2]v but saw type: %[1]v")
	if err != nil {
		return err
	}
	rank := len(m.Dims)
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(m.Columns.Len()), int64(rank)})
	if err != nil {
		return err
	}
	to := tensor.Of[int64](indices)
	if err := eachRow(ctx, m, func(b, i, first int, row []int32, _ places) {
		for k, c := range row {
			index := to[(first+k)*rank:][:rank]
			index[0] = int64(b)
			index[rank-2], index[rank-1] = int64(i), int64(c)
		}
	}); err != nil {
		return err
	}
	ctx.SetOutput(1, m.Values.Retain())
	ctx.SetOutput(2, m.Dense.Retain())
	return nil
}

// eachRow calls body for row i of each matrix b, on as many cores as are worthwhile. first is the position of the row's first element among
// those of all matrices. If the step ends, eachRow returns the step's error.
func eachRow(ctx *kernels.Context, m *variant.CSR, body func(b, i, first int, row []int32, p places)) error {
	rows, _ := m.Size()
	if rows == 0 {
		return nil
	}
	starts := tensor.Of[int32](m.Batches)
	ctx.Parallel(m.Matrices()*rows, rowGrain(m, 1), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			p, i := placesOf(m, r/rows), r%rows
			body(r/rows, i, int(starts[r/rows]+p.from[i]), p.row(i), p)
		}
	})
	return ctx.Ended()
}

// rowGrain returns the minimum number of rows per core if each element costs cost.
func rowGrain(m *variant.CSR, cost int) int {
	rows, _ := m.Size()
	perRow := m.Columns.Len()/max(1, m.Matrices()*rows) + 1
	return max(1, element.CheapGrain/(perRow*max(1, cost)))
}

// components outputs the parts of one matrix of a batch.
func components(ctx *kernels.Context) error {
	m, err := wantedInput(ctx, "dtype of input is not equal to 'type': %v vs. %v")
	if err != nil {
		return err
	}
	index := ctx.Input(1)
	if index.Rank() != 0 {
		return status.InvalidArgumentf("index should be a scalar, but saw: %v", index.Shape())
	}
	b := int(tensor.Of[int32](index)[0])
	if b < 0 || b >= m.Matrices() {
		return status.InvalidArgumentf("index (%d) not in [0, %d)", b, m.Matrices())
	}
	rows, _ := m.Size()
	starts := tensor.Of[int32](m.Batches)
	from, n := int(starts[b]), int(starts[b+1]-starts[b])
	for o, p := range []struct {
		t       *tensor.Tensor
		from, n int
	}{{m.Rows, b * (rows + 1), rows + 1}, {m.Columns, from, n}, {m.Values, from, n}} {
		if p.n == p.t.Len() {
			ctx.SetOutput(o, p.t.Retain())
			continue
		}
		t, err := layout.Part(ctx, p.t, tensor.Shape{int64(p.n)}, p.from, p.n)
		if err != nil {
			return err
		}
		ctx.SetOutput(o, t)
	}
	return nil
}

// countElements outputs the number of elements of each matrix.
func countElements(ctx *kernels.Context) error {
	m, err := variant.CSRInput(ctx, 0)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Int32, m.Dims[:len(m.Dims)-2])
	if err != nil {
		return err
	}
	starts := tensor.Of[int32](m.Batches)
	for b := range tensor.Of[int32](out) {
		tensor.Of[int32](out)[b] = starts[b+1] - starts[b]
	}
	return nil
}
