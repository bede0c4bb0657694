package sparse

import (
	"math/cmplx"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// union visits the coordinates at which a or b has a value, in ascending order, with the numbers of the values; -1 if there is none.
func union(a, b sparse, visit func(i, j int)) {
	for i, j := 0, 0; i < a.count() || j < b.count(); {
		var order int
		switch {
		case j == b.count():
			order = -1
		case i == a.count():
			order = 1
		default:
			order = slices.Compare(a.at(i), b.at(j))
		}
		switch {
		case order < 0:
			visit(i, -1)
			i++
		case order > 0:
			visit(-1, j)
			j++
		default:
			visit(i, j)
			i, j = i+1, j+1
		}
	}
}

// sameShape checks that two sparse tensors have the same shape.
func sameShape(a, b []int64) error {
	if len(a) != len(b) {
		return status.InvalidArgumentf("Operands do not have the same ranks; got shapes: %s and %s", spaced(a), spaced(b))
	}
	for d, size := range a {
		if b[d] != size {
			return status.InvalidArgumentf("Operands' shapes do not match: got %d and %d for dimension %d", size, b[d], d)
		}
	}
	return nil
}

// spaced formats integers as TensorFlow shows a vector.
func spaced(values []int64) string { return strings.ReplaceAll(shapes.JoinInts(values), ",", " ") }

// summands reads the inputs of SparseAdd.
func summands(ctx *kernels.Context) (a, b sparse, err error) {
	in := func(i int) *tensor.Tensor { return ctx.Input(i) }
	rank := 0
	if in(0).Rank() == 2 {
		rank = in(0).Dim(1)
	}
	switch {
	case in(0).Rank() != 2 || in(3).Rank() != 2:
		err = status.InvalidArgumentf("Input indices should be matrices but received shapes: %v and %v", in(0).Shape(), in(3).Shape())
	case in(3).Dim(1) != rank:
		err = status.InvalidArgumentf("Input indices must have the same dimension, got %d and %d", rank, in(3).Dim(1))
	case in(1).Rank() != 1 || in(4).Rank() != 1:
		err = status.InvalidArgumentf("Input values should be vectors but received shapes: %v and %v", in(1).Shape(), in(4).Shape())
	case in(1).Len() != in(0).Dim(0) || in(4).Len() != in(3).Dim(0):
		err = status.InvalidArgumentf("Expected %d and %d non-empty input values, got %d and %d", in(0).Dim(0), in(3).Dim(0), in(1).Len(), in(4).Len())
	case in(2).Rank() != 1 || in(5).Rank() != 1:
		err = status.InvalidArgumentf("Input shapes should be a vector but received shapes %v and %v", in(2).Shape(), in(5).Shape())
	case in(2).Len() != rank:
		err = status.InvalidArgumentf("Second dimension of a_indices and length of a_shape must match, got %d and %d", rank, in(2).Len())
	case rank == 0:
		err = status.InvalidArgumentf("Tesors must not be empty")
	}
	if err != nil {
		return a, b, err
	}
	if a, err = sparseInput(ctx, 0); err != nil {
		return a, b, err
	}
	if b, err = sparseInput(ctx, 3); err != nil {
		return a, b, err
	}
	if err = sameShape(a.shape, b.shape); err == nil && in(6).Rank() != 0 {
		err = status.InvalidArgumentf("The magnitude threshold must be a scalar: got shape %v", in(6).Shape())
	}
	return a, b, err
}

// addSparseTo is SparseAdd: the sum of two sparse tensors. Where both have values, sums with a magnitude below the threshold are omitted.
func addSparseTo[T element.Numeric, R element.Ordered](ctx *kernels.Context, below func(sum T, threshold R) bool) error {
	a, b, err := summands(ctx)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.TakeMany(a.count()+b.count(), 8*a.rank()+element.SizeOf(element.DTypeOf[T]())); err != nil {
		return err
	}
	valuesA, valuesB, threshold := element.ViewOf[T](a.values), element.ViewOf[T](b.values), element.ViewOf[R](ctx.Input(6))[0]
	var coordinates []int64
	var values []T
	union(a, b, func(i, j int) {
		var sum T
		var at []int64
		if j >= 0 {
			sum, at = valuesB[j], b.at(j)
		}
		if i >= 0 {
			sum, at = sum+valuesA[i], a.at(i)
		}
		if i < 0 || j < 0 || !below(sum, threshold) {
			coordinates, values = append(coordinates, at...), append(values, sum)
		}
	})
	if err := writeSparse(ctx, coordinates, values, a.rank()); err != nil {
		return err
	}
	ctx.Pass(2, 2)
	return nil
}

// writeSparse sets outputs 0 and 1 to the coordinates and values of a sparse tensor.
func writeSparse[T element.Numeric](ctx *kernels.Context, coordinates []int64, values []T, rank int) error {
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(len(values)), int64(rank)})
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(1, element.DTypeOf[T](), tensor.Shape{int64(len(values))})
	if err != nil {
		return err
	}
	copy(tensor.Of[int64](indices), coordinates)
	copy(element.ViewOf[T](out), values)
	return nil
}

// sumRow returns the row of SparseAdd for an element type and that of the threshold.
func sumRow[T element.Numeric, R element.Ordered](below func(sum T, threshold R) bool) kernels.Def {
	return kernels.Def{
		Types: map[string][]tensor.DType{"T": {element.DTypeOf[T]()}, "Treal": {element.DTypeOf[R]()}},
		New:   kernels.Always(func(ctx *kernels.Context) error { return addSparseTo(ctx, below) }),
	}
}

// belowReal compares a magnitude. The magnitude of the smallest integer does not wrap around.
func belowReal[T element.Ordered](v, threshold T) bool {
	return v < threshold && -v < threshold && threshold > 0
}

func sumRows() []kernels.Def {
	return []kernels.Def{
		sumRow(belowReal[float32]), sumRow(belowReal[float64]), sumRow(belowReal[int64]), sumRow(belowReal[int32]),
		sumRow(belowReal[int16]), sumRow(belowReal[int8]),
		sumRow(func(v complex64, threshold float32) bool { return float32(cmplx.Abs(complex128(v))) < threshold }),
		sumRow(func(v complex128, threshold float64) bool { return cmplx.Abs(v) < threshold }),
	}
}

func sumGradRows() []kernels.Def {
	return []kernels.Def{
		sumGradRow[float32](), sumGradRow[float64](), sumGradRow[int64](), sumGradRow[int32](), sumGradRow[int16](), sumGradRow[int8](),
		sumGradRow[complex64](), sumGradRow[complex128](),
	}
}

func sumGradRow[T element.Numeric]() kernels.Def {
	return kernels.Def{Types: dtypes.Only("T", element.DTypeOf[T]()), New: kernels.Always(sumGrad[T])}
}

// sumGrad is SparseAddGrad: it distributes the gradient of a sum's values to the summands' values.
func sumGrad[T element.Numeric](ctx *kernels.Context) error {
	grad, a, b, sum := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	switch {
	case a.Rank() != 2 || b.Rank() != 2 || sum.Rank() != 2:
		return status.InvalidArgumentf("Input indices should be matrices but received shapes: %v and %v and %v", a.Shape(), b.Shape(), sum.Shape())
	case grad.Rank() != 1:
		return status.InvalidArgumentf("Input backprop_val_grad should be a vector but received shape: %v", grad.Shape())
	case a.Dim(1) != b.Dim(1) || b.Dim(1) != sum.Dim(1):
		return status.InvalidArgumentf("The densified operands should have the same ndims; for A, B, sum got: %d%d%d", a.Dim(1), b.Dim(1), sum.Dim(1))
	case grad.Len() != sum.Dim(0):
		return status.InvalidArgumentf("# elements of backprop_val_grad and # rows of sum_indices should match (#nnz of sum): got %d and %d", grad.Len(), sum.Dim(0))
	}
	sums, values := sparse{indices: sum}, element.ViewOf[T](grad)
	for o, part := range []sparse{{indices: a}, {indices: b}} {
		out, err := ctx.Allocate(o, grad.DType(), tensor.Shape{int64(part.count())})
		if err != nil {
			return err
		}
		of := element.ViewOf[T](out)
		clear(of)
		union(part, sums, func(i, k int) {
			if i >= 0 && k >= 0 {
				of[i] = values[k]
			}
		})
	}
	return nil
}

// extremes is SparseSparseMaximum and SparseSparseMinimum: the larger or smaller of two sparse tensors' values. A missing value counts as
// zero.
func extremes[T element.Numeric](ctx *kernels.Context, choose func(dst, a, b []T)) error {
	var of [2]sparse
	for n := range of {
		s, err := sparseTensor(ctx, 3*n)
		if err == nil {
			err = s.bounded()
		}
		if err != nil {
			return err
		}
		of[n] = s
	}
	a, b := of[0], of[1]
	if a.rank() == 0 {
		return status.InvalidArgumentf("Tensors must not be empty")
	}
	if err := sameShape(a.shape, b.shape); err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	if err := m.TakeMany(a.count()+b.count(), 8*a.rank()+2*element.SizeOf(element.DTypeOf[T]())); err != nil {
		return err
	}
	valuesA, valuesB := element.ViewOf[T](a.values), element.ViewOf[T](b.values)
	var coordinates []int64
	var left, right []T
	union(a, b, func(i, j int) {
		var x, y T
		var at []int64
		if j >= 0 {
			y, at = valuesB[j], b.at(j)
		}
		if i >= 0 {
			x, at = valuesA[i], a.at(i)
		}
		coordinates, left, right = append(coordinates, at...), append(left, x), append(right, y)
	})
	choose(left, left, right)
	return writeSparse(ctx, coordinates, left, a.rank())
}
