package sparse

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// reduction is a sparse tensor with the dimensions to reduce. kept holds the other dimensions, and out is the result's shape.
type reduction struct {
	sparse
	kept  []int
	out   []int64
	keeps bool // reduced dimensions remain, with size 1
}

// newReduction reads the inputs of SparseReduceSum and its variants.
func newReduction(ctx *kernels.Context, keeps bool) (*reduction, error) {
	shape, axes := ctx.Input(2), ctx.Input(3)
	if shape.Rank() != 1 {
		return nil, status.InvalidArgumentf("Expected input_shape to be a vector; got shape: %v", shape.Shape())
	}
	if axes.Rank() > 1 {
		return nil, status.InvalidArgumentf("Expected reduction_axes to be a scalar or a vector; got shape: %v", axes.Shape())
	}
	rank := shape.Len()
	reduced := make([]bool, rank)
	for _, axis := range tensor.Of[int32](axes) {
		if int(axis) < -rank || int(axis) >= rank {
			return nil, status.InvalidArgumentf("Invalid reduction dimension %d, for input with %d dimensions.", axis, rank)
		}
		reduced[(int(axis)+rank)%rank] = true
	}
	if indices, values := ctx.Input(0), ctx.Input(1); indices.Rank() > 0 && values.Rank() > 0 && indices.Dim(0) != values.Dim(0) {
		return nil, sparse{indices: indices, values: values}.fits()
	}
	s, err := sparseInput(ctx, 0)
	if err != nil {
		return nil, err
	}
	if _, err := s.dense(); err != nil {
		return nil, err
	}
	if err := s.fits(); err != nil {
		return nil, err
	}
	r := &reduction{sparse: s, keeps: keeps}
	for d, gone := range reduced {
		if !gone {
			r.kept = append(r.kept, d)
			r.out = append(r.out, s.shape[d])
		} else if keeps {
			r.out = append(r.out, 1)
		}
	}
	return r, nil
}

// groups returns the numbers of the values, ordered such that those reduced to one result are adjacent, and where each such group ends.
func (r *reduction) groups(ctx *kernels.Context, m *kernels.Meter) (order, ends []int64, err error) {
	if err := m.TakeMany(r.count(), 16); err != nil {
		return nil, nil, err
	}
	order = make([]int64, r.count())
	for i := range order {
		order[i] = int64(i)
	}
	compare := func(a, b int64) int {
		x, y := r.at(int(a)), r.at(int(b))
		for _, d := range r.kept {
			if x[d] != y[d] {
				return 2*btoi(x[d] > y[d]) - 1
			}
		}
		return 0
	}
	if err := kernels.SortStableFunc(ctx, order, compare); err != nil {
		return nil, nil, err
	}
	for i := range order {
		if i+1 == len(order) || compare(order[i], order[i+1]) != 0 {
			ends = append(ends, int64(i+1))
		}
	}
	return order, ends, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reduceSparse calls write for the result of each group, in order, with the coordinates of one of its values.
func reduceSparse[T element.Numeric](ctx *kernels.Context, r *reduction, m *kernels.Meter, reduce func(a, b T) T, begin func(groups int) error, write func(i int, at []int64, v T) error) error {
	order, ends, err := r.groups(ctx, m)
	if err != nil {
		return err
	}
	if err := begin(len(ends)); err != nil {
		return err
	}
	values, first := element.ViewOf[T](r.values), int64(0)
	for i, end := range ends {
		v := values[order[first]]
		for _, n := range order[first+1 : end] {
			v = reduce(v, values[n])
		}
		if err := write(i, r.at(int(order[first])), v); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// toDense is SparseReduceSum and SparseReduceMax. Positions without values are zero.
func toDense[T element.Numeric](ctx *kernels.Context, keeps bool, reduce func(a, b T) T) error {
	r, err := newReduction(ctx, keeps)
	if err != nil {
		return err
	}
	shape, err := shapes.ShapeOf(r.out)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, r.values.DType(), shape)
	if err != nil {
		return err
	}
	dst := element.ViewOf[T](out)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	return reduceSparse(ctx, r, &m, reduce, func(int) error { return nil }, func(_ int, at []int64, v T) error {
		place := int64(0)
		for _, d := range r.kept {
			place = place*r.shape[d] + at[d]
		}
		if place < 0 || place >= int64(len(dst)) {
			return status.Internalf("Obtained a write index of %d which is outside of bounds of [0, %d)", place, len(dst))
		}
		dst[place] = v
		return nil
	})
}

// toSparse is SparseReduceSumSparse and SparseReduceMaxSparse.
func toSparse[T element.Numeric](ctx *kernels.Context, keeps bool, reduce func(a, b T) T) error {
	r, err := newReduction(ctx, keeps)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	var coordinates []int64
	var values []T
	rank := len(r.out)
	err = reduceSparse(ctx, r, &m, reduce, func(groups int) error {
		indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(groups), int64(rank)})
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(1, r.values.DType(), tensor.Shape{int64(groups)})
		if err != nil {
			return err
		}
		coordinates, values = tensor.Of[int64](indices), element.ViewOf[T](out)
		clear(coordinates)
		return nil
	}, func(i int, at []int64, v T) error {
		row := coordinates[i*rank:][:rank]
		for to, d := range r.kept {
			if keeps {
				to = d
			}
			row[to] = at[d]
		}
		values[i] = v
		return nil
	})
	if err != nil {
		return err
	}
	return args.OutputInts(ctx, 2, tensor.Int64, r.out)
}

// reduceRows returns the rows of a reduction for a type; for float also those for the half types.
func reduceRows[T element.Numeric](sparse bool, reduce func(a, b T) T) []kernels.Def {
	run := toDense[T]
	if sparse {
		run = toSparse[T]
	}
	return rowsOf[T](func(c *kernels.Construction) (any, error) {
		keeps, err := c.Attrs().Bool("keep_dims")
		return kernels.Func(func(ctx *kernels.Context) error { return run(ctx, keeps, reduce) }), err
	})
}

func sumOf[T element.Numeric](a, b T) T { return a + b }

func maxOf[T element.Ordered](a, b T) T { return max(a, b) }

// softmaxRows returns the rows of SparseSoftmax. TensorFlow does not have it for bfloat16.
func softmaxRows() []kernels.Def {
	rows := rowsOf[float32](func(*kernels.Construction) (any, error) { return kernels.Func(softmaxSparse[float32]), nil })
	rows = slices.DeleteFunc(rows, func(r kernels.Def) bool { return slices.Contains(r.Types["T"], tensor.BFloat16) })
	return append(rows, rowsOf[float64](func(*kernels.Construction) (any, error) { return kernels.Func(softmaxSparse[float64]), nil })...)
}

// softmaxSparse is SparseSoftmax, over the values that share all coordinates except the last. The results are in the order of the
// coordinates, regardless of the order of the values.
func softmaxSparse[T element.Floating](ctx *kernels.Context) error {
	indices, values, shape := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case indices.Rank() != 2:
		return status.InvalidArgumentf("Input sp_indices should be a matrix but received shape: %v", indices.Shape())
	case values.Rank() != 1 || shape.Rank() != 1:
		return status.InvalidArgumentf("Inputs sp_values and sp_shape should be vectors but received shapes: %v and %v", values.Shape(), shape.Shape())
	case shape.Len() < 2:
		return status.InvalidArgumentf("Input should have rank >= 2, but received shape: %s", spaced(tensor.Of[int64](shape)))
	}
	s, err := sparseInput(ctx, 0)
	if err != nil {
		return err
	}
	if _, err := s.dense(); err != nil {
		return err
	}
	if err := s.fits(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, values.DType(), tensor.Shape{int64(s.count())})
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.TakeMany(s.count(), 8); err != nil {
		return err
	}
	order, err := s.sorted(ctx)
	if err != nil {
		return err
	}
	last := s.rank() - 1
	src, dst := element.ViewOf[T](values), element.ViewOf[T](out)
	for lo := 0; lo < len(order); {
		key, hi := s.at(int(order[lo]))[:last], lo
		top := T(math.Inf(-1))
		for ; hi < len(order) && slices.Equal(s.at(int(order[hi]))[:last], key); hi++ {
			top = max(top, src[order[hi]])
		}
		sum := T(0)
		for i := lo; i < hi; i++ {
			dst[i] = T(math.Exp(float64(src[order[i]] - top)))
			sum += dst[i]
		}
		for i := lo; i < hi; i++ {
			dst[i] /= sum
		}
		lo = hi
	}
	return nil
}
