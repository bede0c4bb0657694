package accumulator

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// Slices is a sparse gradient: row i of Values belongs to row Indices[i] of the dense gradient.
type Slices struct {
	// Indices is a vector of int64, in order; Values has the same number of rows.
	Indices, Values *tensor.Tensor
	// Shape is the shape of the dense gradient, as int64s; nil if unknown.
	Shape *tensor.Tensor
}

// sparse is the sum of sparse gradients. It has the rows that occur in any of them.
type sparse struct {
	options *Options
	indices []int64
	counts  []int // number of gradients with the row
	values  *tensor.Tensor
}

// ApplySparse adds a sparse gradient of the given step. It drops a gradient whose step is earlier than the accumulator's. It borrows the
// tensors. The error is INVALID_ARGUMENT if the parts do not match each other, earlier gradients or the accumulator's shape, or if the
// accumulator is dense.
func (a *Accumulator) ApplySparse(changes *durable.Tx, localStep int64, g Slices) error {
	return a.apply(changes, localStep, func() error {
		s, ok := a.sum.(*sparse)
		if !ok {
			return status.InvalidArgumentf("Accumulator '%s' takes dense gradients, not sparse ones", a.options.Name)
		}
		if err := s.fits(g); err != nil {
			return err
		}
		if err := a.keeper.Admits(s.need(g)); err != nil {
			return err
		}
		if s.values != nil {
			return s.add(g)
		}
		values, err := g.Values.Clone(a.options.Pool)
		if err != nil {
			return err
		}
		s.values = values
		s.indices = append(s.indices[:0], tensor.Of[int64](g.Indices)...)
		s.counts = s.counts[:0]
		for range s.indices {
			s.counts = append(s.counts, 1)
		}
		return nil
	})
}

// need returns what adding a gradient needs on disk: the sum is written anew, with the rows that only the gradient has.
func (s *sparse) need(g Slices) durable.Need {
	const perRow = 16 // an index and a count
	from := tensor.Of[int64](g.Indices)
	if s.values == nil {
		return durable.Adds(g.Values.ByteSize() + perRow*len(from))
	}
	rows := s.union(from)
	if rows == 0 {
		return durable.Removes()
	}
	row := perRow + (s.values.ByteSize()+g.Values.ByteSize())/(len(s.indices)+len(from))
	return durable.Replaces(row*len(s.indices), row*rows)
}

func (s *sparse) fits(g Slices) error {
	o := s.options
	if g.Indices.Rank() != 1 {
		return status.InvalidArgumentf("Input indices should be vector but received shape: %v", g.Indices.Shape())
	}
	if g.Values.Rank() == 0 {
		return status.InvalidArgumentf("Values cannot be 0-dimensional.")
	}
	if n := g.Indices.Len(); g.Values.Dim(0) != n {
		return status.InvalidArgumentf("Expected %d non-empty input values, got %d", n, g.Values.Dim(0))
	}
	if err := fitsWhole(o, g); err != nil {
		return err
	}
	if s.values != nil {
		return fitsRows(s.values.Shape(), g.Values.Shape(), "Shape mismatch: expected values rank %d, got %d", len(s.values.Shape()) != g.Values.Rank())
	}
	return fitsRows(o.Shape, g.Values.Shape(), "Shape mismatch: expected values rank at least %d, got %d", o.rank() > g.Values.Rank())
}

// fitsWhole checks the dense shape and the rows' indices against the accumulator's shape.
func fitsWhole(o *Options, g Slices) error {
	if g.Shape != nil && o.KnownShape {
		if len(o.Shape) > g.Shape.Len() {
			return status.InvalidArgumentf("Shape mismatch: expected shape rank at least %d, got %d", len(o.Shape), g.Shape.Len())
		}
		for i, want := range o.Shape {
			if have := tensor.Of[int64](g.Shape)[i]; want >= 0 && want != have {
				return status.InvalidArgumentf("Shape mismatch: expected shape dim %d to be %d, got %d", i, want, have)
			}
		}
	}
	if o.rank() > 0 && o.Shape[0] >= 0 {
		for i, at := range tensor.Of[int64](g.Indices) {
			if at >= o.Shape[0] {
				return status.InvalidArgumentf("Shape mismatch: index of slice %d exceeded limits of shape; index is %d exceeded %d", i, at, o.Shape[0])
			}
		}
	}
	return nil
}

// fitsRows checks the sizes of rows; rank is the format of the error for a wrong rank.
func fitsRows(want, have tensor.Shape, rank string, wrongRank bool) error {
	if wrongRank {
		return status.InvalidArgumentf(rank, len(want), len(have))
	}
	for i := 1; i < len(want); i++ {
		if want[i] >= 0 && want[i] != have[i] {
			return status.InvalidArgumentf("Shape mismatch: expected values dim %d to be %d, got %d", i, want[i], have[i])
		}
	}
	return nil
}

// add merges a gradient's rows with those of the sum, in the order of their indices. Unordered indices are merged as if they were ordered,
// as in TensorFlow.
func (s *sparse) add(g Slices) error {
	from := tensor.Of[int64](g.Indices)
	n := s.union(from)
	if n == len(s.indices) {
		if err := own(&s.values, s.options.Pool); err != nil {
			return err
		}
		s.addInPlace(from, g.Values)
		return nil
	}
	shape := s.values.Shape().Clone()
	shape[0] = int64(n)
	values, err := tensor.New(s.options.Pool, s.values.DType(), shape)
	if err != nil {
		return err
	}
	size := values.DataSize() / n
	to, old, with := values.Data(), s.values.Data(), g.Values.Data()
	row := func(data []byte, i int) []byte { return data[i*size:][:size] }
	indices, counts := make([]int64, 0, n), make([]int, 0, n)
	s.merge(from, func(i, j int) {
		at, count := len(indices), 1
		switch {
		case j < 0:
			copy(row(to, at), row(old, i))
			count = s.counts[i]
		case i < 0:
			copy(row(to, at), row(with, j))
		default:
			s.options.Arithmetic.Add(row(to, at), row(with, j), row(old, i))
			count = s.counts[i] + 1
		}
		if i >= 0 {
			indices = append(indices, s.indices[i])
		} else {
			indices = append(indices, from[j])
		}
		counts = append(counts, count)
	})
	s.values.Release()
	s.values, s.indices, s.counts = values, indices, counts
	return nil
}

// addInPlace adds rows that all exist in the sum.
func (s *sparse) addInPlace(from []int64, values *tensor.Tensor) {
	if len(from) == 0 {
		return
	}
	size := values.DataSize() / len(from)
	s.merge(from, func(i, j int) {
		if j >= 0 {
			row := s.values.Data()[i*size:][:size]
			s.options.Arithmetic.Add(row, row, values.Data()[j*size:][:size])
			s.counts[i]++
		}
	})
}

// union returns the number of rows in the union of the sum and from.
func (s *sparse) union(from []int64) (n int) {
	s.merge(from, func(int, int) { n++ })
	return n
}

// merge calls row for each row of the union, with its positions in the sum and in from, or -1 where it is missing.
func (s *sparse) merge(from []int64, row func(i, j int)) {
	i, j := 0, 0
	for i < len(s.indices) || j < len(from) {
		switch {
		case j == len(from) || i < len(s.indices) && s.indices[i] < from[j]:
			row(i, -1)
			i++
		case i == len(s.indices) || s.indices[i] > from[j]:
			row(-1, j)
			j++
		default:
			row(i, j)
			i++
			j++
		}
	}
}

// mean divides each row by the number of gradients that have it.
func (s *sparse) mean() {
	if len(s.counts) == 0 {
		return
	}
	size := s.values.DataSize() / len(s.counts)
	for i, n := range s.counts {
		s.options.Arithmetic.Divide(s.values.Data()[i*size:][:size], n)
	}
}

// take returns indices, values and the dense shape, as far as it is known.
func (s *sparse) take(int) ([]*tensor.Tensor, error) {
	if s.options.Mean {
		if err := own(&s.values, s.options.Pool); err != nil {
			return nil, err
		}
	}
	rows, err := int64s(s.options.Pool, s.indices)
	if err != nil {
		return nil, err
	}
	whole := s.values.Shape().Clone()
	whole[0] = -1
	if s.options.rank() > 0 {
		whole[0] = s.options.Shape[0]
	}
	shape, err := int64s(s.options.Pool, whole)
	if err != nil {
		rows.Release()
		return nil, err
	}
	if s.options.Mean {
		s.mean()
	}
	out := []*tensor.Tensor{rows, s.values, shape}
	s.values = nil
	return out, nil
}

func (s *sparse) drop() {
	if s.values != nil {
		s.values.Release()
	}
	s.values, s.indices, s.counts = nil, nil, nil
}

func int64s(pool *tensor.Pool, list []int64) (*tensor.Tensor, error) {
	t, err := tensor.New(pool, tensor.Int64, tensor.Shape{int64(len(list))})
	if err == nil {
		copy(tensor.Of[int64](t), list)
	}
	return t, err
}
