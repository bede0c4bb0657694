package sparse

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// withDense combines the values of a sparse tensor with those at the same positions of a dense one, which is broadcast to its shape.
func withDense[T element.Numeric](ctx *kernels.Context, divides bool, combine func(dst, a, b []T)) error {
	s, dense, err := withDenseInputs(ctx)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	there, err := kernels.Scratch[T](&m, s.count())
	if err != nil {
		return err
	}
	values, dims := element.ViewOf[T](dense), dense.Shape()
	skip := s.rank() - len(dims)
	var zero T
	for i := range there {
		at := s.at(i)
		if !s.inside(at) {
			return status.InvalidArgumentf("Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape")
		}
		place := int64(0)
		for d, size := range dims {
			place *= size
			if size > 1 {
				place += at[skip+d]
			}
		}
		there[i] = values[place]
		if divides && there[i] == zero {
			return status.InvalidArgumentf("SparseDenseCwiseDiv cannot divide by zero,but input dense tensor contains zero ")
		}
	}
	out, err := ctx.Allocate(0, s.values.DType(), tensor.Shape{int64(s.count())})
	if err != nil {
		return err
	}
	combine(element.ViewOf[T](out), element.ViewOf[T](s.values), there)
	return nil
}

// withDenseInputs reads the inputs of SparseDenseCwiseAdd and its variants.
func withDenseInputs(ctx *kernels.Context) (sparse, *tensor.Tensor, error) {
	indices, values, shape, dense := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	var err error
	switch {
	case indices.Rank() != 2:
		err = status.InvalidArgumentf("Input sp_indices should be a matrix but received shape: %v", indices.Shape())
	case values.Rank() != 1 || shape.Rank() != 1:
		err = status.InvalidArgumentf("Inputs sp_values and sp_shape should be vectors but received shapes: %v and %v", values.Shape(), shape.Shape())
	case values.Len() != indices.Dim(0):
		err = status.InvalidArgumentf("The first dimension of values and indices should match. (%d vs. %d)", values.Len(), indices.Dim(0))
	case shape.Len() != indices.Dim(1):
		err = status.InvalidArgumentf("Number of dimensions must match second dimension of indices. Got %d dimensions, indices shape: %v", shape.Len(), indices.Shape())
	case shape.Len() == 0:
		err = status.InvalidArgumentf("The shape argument requires at least one element.")
	}
	if err != nil {
		return sparse{}, nil, err
	}
	s, err := sparseInput(ctx, 0)
	if err != nil {
		return s, nil, err
	}
	if _, err := s.dense(); err != nil {
		return s, nil, err
	}
	// TensorFlow treats the dense tensor as having at least one dimension.
	dims := []int64(dense.Shape())
	if len(dims) == 0 {
		dims = []int64{1}
	}
	if !broadcasts(dims, s.shape) {
		return s, nil, status.InvalidArgumentf("SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: [%s] vs. [%s]",
			shapes.JoinInts(s.shape), shapes.JoinInts(dims))
	}
	const mostRank = 5
	if len(s.shape) > mostRank {
		return s, nil, status.InvalidArgumentf("Only tensors with ranks between 1 and 5 are currently supported.  Tensor rank: %d", len(s.shape))
	}
	return s, dense, nil
}

// broadcasts reports whether a tensor of some shape can be broadcast to another one.
func broadcasts(from, to []int64) bool {
	skip := len(to) - len(from)
	if skip < 0 {
		return false
	}
	for d, size := range from {
		if want := to[skip+d]; size > want || size != want && size != 1 {
			return false
		}
	}
	return true
}
