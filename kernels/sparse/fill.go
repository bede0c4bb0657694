package sparse

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// fillEmptyRows gives each row that has no value the default value, at its first place. Beside the sparse tensor, its outputs tell
// which rows were empty, and where each value went.
func fillEmptyRows(ctx *kernels.Context) error {
	s, err := rowsToFill(ctx)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	f, err := newRowFiller(ctx, &m, s)
	if err != nil {
		return err
	}
	if len(f.empty) == 0 && f.ordered {
		ctx.Pass(0, 0)
		ctx.Pass(1, 1)
		return nil
	}
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{f.total, int64(s.rank())})
	if err != nil {
		return err
	}
	values, err := ctx.Allocate(1, s.values.DType(), tensor.Shape{f.total})
	if err != nil {
		return err
	}
	if err := layout.MoveAt(ctx, indices, s.indices, f.to, nil, s.rank(), s.count()); err != nil {
		return err
	}
	if err := layout.MoveAt(ctx, values, s.values, f.to, nil, 1, s.count()); err != nil {
		return err
	}
	at := tensor.Of[int64](indices)
	for i, row := range f.empty {
		first := at[f.gaps[i]*int64(s.rank()):][:s.rank()]
		clear(first)
		first[0] = row
	}
	only, err := kernels.Scratch[int64](&m, len(f.gaps)) // the default value, again and again
	if err != nil {
		return err
	}
	return layout.MoveAt(ctx, values, ctx.Input(3), f.gaps, only, 1, len(f.gaps))
}

// rowsToFill reads the inputs of SparseFillEmptyRows.
func rowsToFill(ctx *kernels.Context) (sparse, error) {
	indices, values, shape, fill := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	switch {
	case shape.Rank() != 1:
		return sparse{}, status.InvalidArgumentf("dense_shape must be a vector, saw: %v", shape.Shape())
	case indices.Rank() != 2:
		return sparse{}, status.InvalidArgumentf("indices must be a matrix, saw: %v", indices.Shape())
	case values.Rank() != 1:
		return sparse{}, status.InvalidArgumentf("values must be a vector, saw: %v", values.Shape())
	case indices.Dim(0) != values.Len():
		return sparse{}, status.InvalidArgumentf("The length of `values` (%d) must match the first dimension of `indices` (%d).", values.Len(), indices.Dim(0))
	case indices.Dim(1) != shape.Len():
		return sparse{}, status.InvalidArgumentf("The length of `dense_shape` (%d) must match the second dimension of `indices` (%d).", shape.Len(), indices.Dim(1))
	case fill.Rank() != 0:
		return sparse{}, status.InvalidArgumentf("default_value must be a scalar, saw: %v", fill.Shape())
	case shape.Len() == 0:
		return sparse{}, status.InvalidArgumentf("Dense shape cannot be empty.")
	}
	s, err := sparseInput(ctx, 0)
	if err == nil && s.shape[0] < 0 {
		err = status.InvalidArgumentf("Expected shape dimensions to be non-negative, got %d", s.shape[0])
	}
	if err == nil && s.shape[0] == 0 && s.count() > 0 {
		err = status.InvalidArgumentf("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %d", s.count())
	}
	return s, err
}

// rowFiller is where the values of a sparse tensor go when its empty rows are filled.
type rowFiller struct {
	total   int64   // values there are then
	to      []int64 // for each value, in the order in which they come
	empty   []int64 // rows
	gaps    []int64 // where their default values go
	ordered bool    // the values come row by row
}

// newRowFiller makes the outputs that tell which rows are empty and where values go, and finds the places.
func newRowFiller(ctx *kernels.Context, m *kernels.Meter, s sparse) (*rowFiller, error) {
	rows, n := s.shape[0], s.count()
	emptiness, err := ctx.Allocate(2, tensor.Bool, tensor.Shape{rows})
	if err != nil {
		return nil, err
	}
	places, err := ctx.Allocate(3, tensor.Int64, tensor.Shape{int64(n)})
	if err != nil {
		return nil, err
	}
	next, err := kernels.Scratch[int64](m, int(rows)) // how many values a row has, and then where its next one goes
	if err != nil {
		return nil, err
	}
	f := &rowFiller{to: tensor.Of[int64](places), ordered: true}
	last := int64(0)
	for i := range n {
		row := s.at(i)[0]
		if row < 0 || row >= rows {
			return nil, status.InvalidArgumentf("indices(%d, 0) is invalid: %d >= %d", i, row, rows)
		}
		next[row]++
		f.ordered = f.ordered && row >= last
		last = row
	}
	isEmpty := tensor.Of[bool](emptiness)
	for row, have := range next {
		isEmpty[row] = have == 0
		next[row] = f.total
		if have == 0 {
			if err := m.Take(2 * 8); err != nil {
				return nil, err
			}
			f.empty, f.gaps = append(f.empty, int64(row)), append(f.gaps, f.total)
		}
		f.total += max(have, 1)
	}
	for i := range n {
		row := s.at(i)[0]
		f.to[i] = next[row]
		next[row]++
	}
	return f, nil
}

// fillEmptyRowsGrad gives each value the gradient of its place, and the default value the sum of all others.
func fillEmptyRowsGrad(ctx *kernels.Context) error {
	places, grads := ctx.Input(0), ctx.Input(1)
	if places.Rank() != 1 {
		return status.InvalidArgumentf("reverse_index_map must be a vector, saw: %v", places.Shape())
	}
	if grads.Rank() != 1 {
		return status.InvalidArgumentf("grad_values must be a vector, saw: %v", grads.Shape())
	}
	m := ctx.Meter()
	defer m.Done()
	taken, err := kernels.Scratch[bool](&m, grads.Len())
	if err != nil {
		return err
	}
	from := tensor.Of[int64](places)
	for _, at := range from {
		if at < 0 || at >= int64(len(taken)) {
			return status.InvalidArgumentf("Elements in reverse index must be in [0, %d) but got %d", len(taken), at)
		}
		taken[at] = true
	}
	if err := pickRows(ctx, 0, grads, from); err != nil {
		return err
	}
	rest, err := ctx.Allocate(1, grads.DType(), nil)
	if err != nil {
		return err
	}
	layout.Zero(ctx, rest)
	add, sum, size := update.Updaters[update.Add][grads.DType()], rest.Data(), grads.DType().Size()
	for i, t := range taken {
		if !t {
			add(sum, sum, grads.Data()[i*size:][:size])
		}
	}
	return nil
}
