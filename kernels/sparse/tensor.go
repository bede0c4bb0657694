package sparse

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// sparse is a sparse tensor: the coordinates of its values (int64, one row for each), the values (a vector), and the shape of the dense
// tensor. It borrows its tensors.
type sparse struct {
	indices, values *tensor.Tensor
	shape           []int64
}

// sparseInput reads three inputs, starting at i. They have the ranks of a sparse tensor, but need not fit together.
func sparseInput(ctx *kernels.Context, i int) (s sparse, err error) {
	s.indices, s.values = ctx.Input(i), ctx.Input(i+1)
	shape := ctx.Input(i + 2)
	switch {
	case s.indices.Rank() != 2:
		return s, status.InvalidArgumentf("Input indices should be a matrix but received shape %v", s.indices.Shape())
	case s.values.Rank() != 1:
		return s, status.InvalidArgumentf("Input values should be a vector but received shape %v", s.values.Shape())
	case shape.Rank() != 1:
		return s, status.InvalidArgumentf("Input shape should be a vector but received shape %v", shape.Shape())
	case s.indices.DType() != tensor.Int64 || shape.DType() != tensor.Int64:
		return s, status.InvalidArgumentf("indices must be type int64 but got: %v", s.indices.DType())
	}
	s.shape = tensor.Of[int64](shape)
	return s, nil
}

// sparseTensor is sparseInput for three inputs that must form a sparse tensor (TensorFlow's ValidateSparseTensor; the coordinates are not
// checked).
func sparseTensor(ctx *kernels.Context, i int) (sparse, error) {
	indices, values, shape := ctx.Input(i), ctx.Input(i+1), ctx.Input(i+2)
	switch {
	case indices.Rank() != 2:
		return sparse{}, status.InvalidArgumentf("Sparse indices must be rank 2 but is rank %d", indices.Rank())
	case values.Rank() != 1:
		return sparse{}, status.InvalidArgumentf("Sparse values must be rank 1 but is rank %d", values.Rank())
	case shape.Rank() != 1:
		return sparse{}, status.InvalidArgumentf("Sparse shape must be rank 1 but is rank %d", shape.Rank())
	case indices.Dim(0) != values.Len():
		return sparse{}, status.InvalidArgumentf("Number of elements in indices (%d) and values (%d) do not match", indices.Dim(0), values.Len())
	case indices.Dim(1) != shape.Len():
		return sparse{}, status.InvalidArgumentf("Index rank (%d) and shape rank (%d) do not match", indices.Dim(1), shape.Len())
	}
	return sparseInput(ctx, i)
}

// fits checks that the parts belong together.
func (s sparse) fits() error {
	switch {
	case s.indices.Dim(0) != s.values.Len():
		return status.InvalidArgumentf("indices and values rows (indexing dimension) must match. (indices = %d, values = %d)", s.indices.Dim(0), s.values.Len())
	case s.indices.Dim(1) != len(s.shape):
		return status.InvalidArgumentf("Order length must be SparseTensor rank.")
	}
	return nil
}

// dense returns a copy of the shape of the dense tensor.
func (s sparse) dense() (tensor.Shape, error) {
	for _, d := range s.shape {
		if d < 0 {
			return nil, status.InvalidArgumentf("Expected shape dimensions to be non-negative, got %d", d)
		}
	}
	return shapes.ShapeOf(slices.Clone(s.shape))
}

// count returns the number of values, and rank the number of dimensions.
func (s sparse) count() int { return s.indices.Dim(0) }

func (s sparse) rank() int { return s.indices.Dim(1) }

// at returns the coordinates of value i.
func (s sparse) at(i int) []int64 {
	rank := s.rank()
	return tensor.Of[int64](s.indices)[i*rank : (i+1)*rank]
}

// inside reports whether the coordinates lie within the shape.
func (s sparse) inside(at []int64) bool {
	for d, x := range at {
		if x < 0 || x >= s.shape[d] {
			return false
		}
	}
	return true
}

// ordered checks that all coordinates lie within the shape and ascend strictly.
func (s sparse) ordered() error {
	for i := range s.count() {
		at := s.at(i)
		order := 1
		if i > 0 {
			order = slices.Compare(at, s.at(i-1))
		}
		switch {
		case !s.inside(at):
			return status.InvalidArgumentf("indices[%d] = [%s] is out of bounds: need 0 <= index < [%s]", i, shapes.JoinInts(at), shapes.JoinInts(s.shape))
		case order < 0:
			return status.InvalidArgumentf("indices[%d] = [%s] is out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n", i, shapes.JoinInts(at))
		case order == 0:
			return status.InvalidArgumentf("indices[%d] = [%s] is repeated", i, shapes.JoinInts(at))
		}
	}
	return nil
}

// bounded checks that all coordinates lie within the shape.
func (s sparse) bounded() error {
	for i := range s.count() {
		if at := s.at(i); !s.inside(at) {
			return status.InvalidArgumentf("Sparse index tuple indices[%d, :] = [%s] is out of bounds", i, strings.ReplaceAll(shapes.JoinInts(at), ",", ", "))
		}
	}
	return nil
}

// sorted returns the numbers of the values in the order of their coordinates. The sort is stable. The error is that of a step that has ended.
func (s sparse) sorted(ctx *kernels.Context) ([]int64, error) {
	order := make([]int64, s.count())
	for i := range order {
		order[i] = int64(i)
	}
	return order, kernels.SortStableFunc(ctx, order, func(a, b int64) int { return slices.Compare(s.at(int(a)), s.at(int(b))) })
}

// pickRows sets output o to the rows of t with the numbers in from.
func pickRows(ctx *kernels.Context, o int, t *tensor.Tensor, from []int64) error {
	shape := shapes.Replaced(t.Shape(), 0, 1, int64(len(from)))
	out, err := ctx.Allocate(o, t.DType(), shape)
	if err != nil {
		return err
	}
	return layout.MoveAt(ctx, out, t, nil, from, shape[1:].Elements(), len(from))
}

// groups calls f for each run of values that share their first coordinate.
func (s sparse) groups(f func(first int64, lo, hi int) error) error {
	for lo := 0; lo < s.count(); {
		hi, first := lo+1, s.at(lo)[0]
		for hi < s.count() && s.at(hi)[0] == first {
			hi++
		}
		if err := f(first, lo, hi); err != nil {
			return err
		}
		lo = hi
	}
	return nil
}

// sparseBatch checks that the inputs starting at i are a batch of sparse tensors: ordered, of rank 2 or more.
func sparseBatch(ctx *kernels.Context, i int) (sparse, error) {
	s, err := sparseInput(ctx, i)
	if err != nil {
		return s, err
	}
	if len(s.shape) < 2 {
		return s, status.InvalidArgumentf("Rank of input SparseTensor should be > 1, but saw rank: %d", len(s.shape))
	}
	if _, err := s.dense(); err != nil {
		return s, err
	}
	if err := s.fits(); err != nil {
		return s, err
	}
	return s, s.ordered()
}

// part returns the sparse tensor of values lo to hi without their first coordinate. The caller owns both tensors.
func (s sparse) part(pool *tensor.Pool, lo, hi int) (indices, values *tensor.Tensor, err error) {
	n, rank := hi-lo, s.rank()-1
	if indices, err = tensor.New(pool, tensor.Int64, tensor.Shape{int64(n), int64(rank)}); err != nil {
		return nil, nil, err
	}
	if values, err = tensor.New(pool, s.values.DType(), tensor.Shape{int64(n)}); err != nil {
		indices.Release()
		return nil, nil, err
	}
	at := tensor.Of[int64](indices)
	from := make([]int64, n)
	for i := range n {
		copy(at[i*rank:], s.at(lo + i)[1:])
		from[i] = int64(lo + i)
	}
	layout.MoverOf(values.DType()).Rows(values, s.values, nil, from, 1, 0, n)
	return indices, values, nil
}

// stacked stacks sparse tensors of one rank along a new first dimension. It outputs indices, values and shape. Each dimension is as large
// as the largest of the tensors'.
func stacked(ctx *kernels.Context, dtype tensor.DType, lead []int64, parts []sparse) error {
	n, rank := 0, len(parts[0].shape)
	shape := make([]int64, len(lead)+rank)
	copy(shape, lead)
	for _, p := range parts {
		n += p.count()
		for d, size := range p.shape {
			shape[len(lead)+d] = max(shape[len(lead)+d], size)
		}
	}
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(n), int64(len(shape))})
	if err != nil {
		return err
	}
	values, err := ctx.Allocate(1, dtype, tensor.Shape{int64(n)})
	if err != nil {
		return err
	}
	if err := args.OutputInts(ctx, 2, tensor.Int64, shape); err != nil {
		return err
	}
	at, row := tensor.Of[int64](indices), 0
	place := make([]int64, len(lead))
	m := layout.MoverOf(dtype)
	for i, p := range parts {
		rest := int64(i)
		for d := len(lead) - 1; d >= 0; d-- {
			place[d] = rest % lead[d]
			rest /= lead[d]
		}
		to := make([]int64, p.count())
		for j := range to {
			copy(at[copy(at, place):], p.at(j))
			at = at[len(shape):]
			to[j] = int64(row + j)
		}
		m.Rows(values, p.values, to, nil, 1, 0, len(to))
		row += len(to)
	}
	return nil
}
