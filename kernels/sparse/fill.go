package sparse

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// rowValues are values in their input order, and the row of each.
type rowValues struct {
	indices, values *tensor.Tensor
	rows            int64
	rank            int // number of coordinates of a value, the first of which is its row
}

func (v rowValues) count() int { return v.values.Len() }

// row returns the row of value i.
func (v rowValues) row(i int) int64 { return tensor.Of[int64](v.indices)[i*v.rank] }

// fillEmptyRows adds the default value at the first position of each row without values. It also outputs which rows were empty, and where
// each value went.
func fillEmptyRows(read func(ctx *kernels.Context) (rowValues, error)) kernels.Func {
	return func(ctx *kernels.Context) error {
		v, err := read(ctx)
		if err != nil {
			return err
		}
		if v.rows < 0 {
			return status.InvalidArgumentf("Expected shape dimensions to be non-negative, got %d", v.rows)
		}
		if v.rows == 0 && v.count() > 0 {
			return status.InvalidArgumentf("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = %d", v.count())
		}
		m := ctx.Meter()
		defer m.Done()
		f, err := newRowFiller(ctx, &m, v)
		if err != nil {
			return err
		}
		if len(f.empty) == 0 && f.ordered && v.rows > 0 {
			ctx.Pass(0, 0)
			ctx.Pass(1, 1)
			return nil
		}
		return f.fill(ctx, &m, v)
	}
}

// fill sets the outputs for values and coordinates.
func (f *rowFiller) fill(ctx *kernels.Context, m *kernels.Meter, v rowValues) error {
	shape := tensor.Shape{f.total, int64(v.rank)}
	if v.rows > 0 {
		shape = shape[:v.indices.Rank()] // as in TensorFlow, coordinates are a matrix if there are no rows
	}
	indices, err := ctx.Allocate(0, tensor.Int64, shape)
	if err != nil {
		return err
	}
	values, err := ctx.Allocate(1, v.values.DType(), tensor.Shape{f.total})
	if err != nil {
		return err
	}
	if err := layout.MoveAt(ctx, indices, v.indices, f.to, nil, v.rank, v.count()); err != nil {
		return err
	}
	if err := layout.MoveAt(ctx, values, v.values, f.to, nil, 1, v.count()); err != nil {
		return err
	}
	at := tensor.Of[int64](indices)
	for i, row := range f.empty {
		first := at[f.gaps[i]*int64(v.rank):][:v.rank]
		clear(first)
		first[0] = row
	}
	only, err := kernels.Scratch[int64](m, len(f.gaps)) // the default value, repeated
	if err != nil {
		return err
	}
	return layout.MoveAt(ctx, values, ctx.Input(3), f.gaps, only, 1, len(f.gaps))
}

// sparseRows reads the inputs of SparseFillEmptyRows.
func sparseRows(ctx *kernels.Context) (rowValues, error) {
	indices, values, shape, fill := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	var err error
	switch {
	case shape.Rank() != 1:
		err = status.InvalidArgumentf("dense_shape must be a vector, saw: %v", shape.Shape())
	case indices.Rank() != 2:
		err = status.InvalidArgumentf("indices must be a matrix, saw: %v", indices.Shape())
	case values.Rank() != 1:
		err = status.InvalidArgumentf("values must be a vector, saw: %v", values.Shape())
	case indices.Dim(0) != values.Len():
		err = status.InvalidArgumentf("The length of `values` (%d) must match the first dimension of `indices` (%d).", values.Len(), indices.Dim(0))
	case indices.Dim(1) != shape.Len():
		err = status.InvalidArgumentf("The length of `dense_shape` (%d) must match the second dimension of `indices` (%d).", shape.Len(), indices.Dim(1))
	case fill.Rank() != 0:
		err = status.InvalidArgumentf("default_value must be a scalar, saw: %v", fill.Shape())
	case shape.Len() == 0:
		err = status.InvalidArgumentf("Dense shape cannot be empty.")
	}
	if err != nil {
		return rowValues{}, err
	}
	s, err := sparseInput(ctx, 0)
	if err != nil {
		return rowValues{}, err
	}
	return rowValues{indices: s.indices, values: s.values, rows: s.shape[0], rank: s.rank()}, nil
}

// raggedRows reads the inputs of RaggedFillEmptyRows.
func raggedRows(ctx *kernels.Context) (rowValues, error) {
	indices, values, rows, fill := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	switch {
	case rows.Rank() != 0:
		return rowValues{}, status.InvalidArgumentf("nrows must be a scalar, saw: %v", rows.Shape())
	case indices.Rank() != 1:
		return rowValues{}, status.InvalidArgumentf("value_rowids must be a vector, saw: %v", indices.Shape())
	case values.Rank() != 1:
		return rowValues{}, status.InvalidArgumentf("values must be a vector, saw: %v", values.Shape())
	case indices.Len() != values.Len():
		return rowValues{}, status.InvalidArgumentf("The length of `values` (%d) must match the first dimension of `value_rowids` (%d).", values.Len(), indices.Len())
	case fill.Rank() != 0:
		return rowValues{}, status.InvalidArgumentf("default_value must be a scalar, saw: %v", fill.Shape())
	}
	return rowValues{indices: indices, values: values, rows: tensor.Of[int64](rows)[0], rank: 1}, nil
}

// rowFiller holds the positions of values once the empty rows are filled.
type rowFiller struct {
	total   int64   // number of values afterwards
	to      []int64 // for each value, in input order
	empty   []int64 // rows
	gaps    []int64 // where their default values go
	ordered bool    // the values come row by row
}

// newRowFiller sets the outputs for empty rows and positions, and computes the positions.
func newRowFiller(ctx *kernels.Context, m *kernels.Meter, v rowValues) (*rowFiller, error) {
	n := v.count()
	emptiness, err := ctx.Allocate(2, tensor.Bool, tensor.Shape{v.rows})
	if err != nil {
		return nil, err
	}
	places, err := ctx.Allocate(3, tensor.Int64, tensor.Shape{int64(n)})
	if err != nil {
		return nil, err
	}
	next, err := kernels.Scratch[int64](m, int(v.rows)) // the number of values of a row, later the position of its next value
	if err != nil {
		return nil, err
	}
	f := &rowFiller{to: tensor.Of[int64](places), ordered: true}
	last := int64(0)
	for i := range n {
		row := v.row(i)
		if row < 0 || row >= v.rows {
			return nil, status.InvalidArgumentf("indices(%d, 0) is invalid: %d >= %d", i, row, v.rows)
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
		row := v.row(i)
		f.to[i] = next[row]
		next[row]++
	}
	return f, nil
}

// placeTime is the time in nanoseconds to note a place.
const placeTime = 4

// fillEmptyRowsGrad outputs for each value the gradient at its position, and for the default value the sum of all others.
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
	end := ctx.Lookout()
	for _, at := range from {
		if err := end.After(placeTime); err != nil {
			return err
		}
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
	return ctx.Each(len(taken), addTime, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			if !taken[i] {
				add(sum, sum, grads.Data()[i*size:][:size])
			}
		}
		return nil
	})
}

// addTime is the time in nanoseconds to add one element to a sum.
const addTime = 16
