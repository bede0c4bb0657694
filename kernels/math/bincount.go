package math

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// bins holds the counts of one row, the sums of its weights or, if binary, whether each value occurs.
type bins[T element.Numeric] struct {
	counts  []T
	weights []T // nil if every element weighs 1
	binary  bool
}

// add counts element i, whose value is given. Values beyond the bins are ignored.
func (b *bins[T]) add(i int, value int64) {
	switch {
	case value >= int64(len(b.counts)):
	case b.binary:
		b.counts[value] = 1
	case b.weights == nil:
		b.counts[value]++
	default:
		b.counts[value] += b.weights[i]
	}
}

// binSize returns the number of bins, which t holds as a scalar.
func binSize(t *tensor.Tensor) (int64, error) {
	if t.Rank() != 0 {
		return 0, status.InvalidArgumentf("Shape must be rank 0 but is rank %d", t.Rank())
	}
	size, err := args.IntAt(t, 0)
	if err == nil && size < 0 {
		err = status.InvalidArgumentf("size (%d) must be non-negative", size)
	}
	return size, err
}

// bincountKernel implements the Bincount ops, which differ in how values are assigned to rows.
type bincountKernel[T element.Numeric] struct {
	dtype  tensor.DType
	binary bool
	form   bincountForm
}

// bincountForm says from which inputs an op takes its values, and how it treats them.
type bincountForm struct {
	values, size, weights int
	rows                  func(ctx *kernels.Context) (rows int64, rowOf func(i int) int, err error)
	negative              string // the error for negative values
	skips                 bool   // ignore negative values in rows
	sameShape             bool   // weights must have the values' shape
}

func (k *bincountKernel[T]) Compute(ctx *kernels.Context) error {
	values, weights := ctx.Input(k.form.values), ctx.Input(k.form.weights)
	if err := args.CheckType(ctx, k.form.weights, k.dtype); err != nil {
		return err
	}
	rows, rowOf, err := k.form.rows(ctx)
	if err != nil {
		return err
	}
	size, err := binSize(ctx.Input(k.form.size))
	if err != nil {
		return err
	}
	if k.form.sameShape && weights.Len() > 0 && !weights.Shape().Equal(values.Shape()) {
		return status.InvalidArgumentf("`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights equal to 1. Received %v", weights.Shape())
	}
	if weights.Len() > 0 && weights.Len() != values.Len() {
		return status.InvalidArgumentf("Input indices and weights must have the same size.")
	}
	shape := tensor.Shape{size}
	if rows >= 0 {
		shape = tensor.Shape{rows, size}
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil {
		return err
	}
	all := element.ViewOf[T](out)
	if err := kernels.Clear(ctx, all); err != nil {
		return err
	}
	b := bins[T]{counts: all, binary: k.binary}
	if weights.Len() > 0 {
		b.weights = element.ViewOf[T](weights)
	}
	for i := range values.Len() {
		v, err := args.IntAt(values, i)
		if err != nil {
			return err
		}
		if v < 0 {
			if rows < 0 || !k.form.skips {
				if rows >= 0 && k.form.sameShape {
					return status.InvalidArgumentf("Input 'in' must be non-negative! Negative input value found: %d", v)
				}
				return status.New(status.InvalidArgument, k.form.negative)
			}
			continue
		}
		if rows >= 0 {
			r := rowOf(i)
			b.counts = all[r*int(size) : (r+1)*int(size)]
		}
		b.add(i, v)
	}
	return nil
}

// oneRow is the rows function of ops whose result is a vector.
func oneRow(*kernels.Context) (int64, func(int) int, error) { return -1, nil, nil }

// matrixRows returns the rows of DenseBincount's input if that is a matrix.
func matrixRows(ctx *kernels.Context) (int64, func(int) int, error) {
	values := ctx.Input(0)
	switch values.Rank() {
	case 0, 1:
		return -1, nil, nil
	case 2:
		return values.Shape()[0], func(i int) int { return i / values.Dim(1) }, nil
	}
	return 0, nil, status.InvalidArgumentf("Shape must be at most rank 2 but is rank %d", values.Rank())
}

// sparseRows returns the rows of SparseBincount's input. Input 0 holds the positions of the values.
func sparseRows(ctx *kernels.Context) (int64, func(int) int, error) {
	indices, values, dense := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Int64), args.CheckType(ctx, 2, tensor.Int64)); err != nil {
		return 0, nil, err
	}
	switch {
	case indices.Rank() != 2:
		return 0, nil, status.InvalidArgumentf("Sparse indices must be rank 2 but is rank %d", indices.Rank())
	case values.Rank() != 1:
		return 0, nil, status.InvalidArgumentf("Sparse values must be rank 1 but is rank %d", values.Rank())
	case dense.Rank() != 1:
		return 0, nil, status.InvalidArgumentf("Sparse shape must be rank 1 but is rank %d", dense.Rank())
	case indices.Dim(0) != values.Len():
		return 0, nil, status.InvalidArgumentf("Number of elements in indices (%d) and values (%d) do not match", indices.Dim(0), values.Len())
	case indices.Dim(1) != dense.Len():
		return 0, nil, status.InvalidArgumentf("Index rank (%d) and shape rank (%d) do not match", indices.Dim(1), dense.Len())
	}
	at, sizes, rank := tensor.Of[int64](indices), tensor.Of[int64](dense), dense.Len()
	for i := range at {
		if at[i] < 0 || at[i] >= sizes[i%rank] {
			return 0, nil, status.InvalidArgumentf("Sparse index tuple %d is out of bounds for the dense shape %v", i/rank, tensor.Shape(sizes))
		}
	}
	if rank <= 1 {
		return -1, nil, nil
	}
	if sizes[0] < 0 {
		return 0, nil, status.InvalidArgumentf("Sparse shape %v has a negative dimension", tensor.Shape(sizes))
	}
	return sizes[0], func(i int) int { return int(at[i*rank]) }, nil
}

// raggedRows returns the rows of RaggedBincount's input. Input 0 holds the row splits: where each row ends.
func raggedRows(ctx *kernels.Context) (int64, func(int) int, error) {
	if err := args.CheckType(ctx, 0, tensor.Int64); err != nil {
		return 0, nil, err
	}
	splits, n := tensor.Of[int64](ctx.Input(0)), int64(ctx.Input(1).Len())
	if len(splits) == 0 {
		return 0, nil, status.InvalidArgumentf("Splits must be non-empty")
	}
	if splits[0] != 0 {
		return 0, nil, status.InvalidArgumentf("Splits must start with 0, not with %d", splits[0])
	}
	if last := splits[len(splits)-1]; last != n {
		return 0, nil, status.InvalidArgumentf("Splits must end with the number of values, got %d instead of %d", last, n)
	}
	for i := range splits[1:] {
		if splits[i] > splits[i+1] {
			return 0, nil, status.InvalidArgumentf("Splits must not decrease, got %d after %d", splits[i+1], splits[i])
		}
	}
	row := 0
	return int64(len(splits) - 1), func(i int) int {
		for int64(i) >= splits[row+1] {
			row++
		}
		return row
	}, nil
}

// Forms of the ops.
var (
	countAll    = bincountForm{0, 1, 2, oneRow, "Input arr must be non-negative!", false, false}
	countDense  = bincountForm{0, 1, 2, matrixRows, "Input arr must be non-negative!", false, true}
	countSparse = bincountForm{1, 3, 4, sparseRows, "Input arr must be non-negative!", true, false}
	countRagged = bincountForm{1, 2, 3, raggedRows, "Input must be non-negative", false, false}
)

// bincountRows returns the rows of an op. binary returns whether the op records only the presence of a value.
func bincountRows(form bincountForm, binary func(*kernels.Construction) (bool, error)) []kernels.Def {
	return slices.Concat(bincountOf[float32](form, binary), bincountOf[float64](form, binary),
		bincountOf[int8](form, binary), bincountOf[int16](form, binary), bincountOf[int32](form, binary), bincountOf[int64](form, binary),
		bincountOf[uint8](form, binary), bincountOf[uint16](form, binary), bincountOf[uint32](form, binary), bincountOf[uint64](form, binary),
		bincountOf[complex64](form, binary), bincountOf[complex128](form, binary))
}

func bincountOf[T element.Numeric](form bincountForm, binary func(*kernels.Construction) (bool, error)) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		b, err := binary(c)
		return &bincountKernel[T]{dtype, b, form}, err
	})
}

// binaryOutput reads the attribute binary_output. counting serves the ops that lack it and always count.
func binaryOutput(c *kernels.Construction) (bool, error) { return c.Attrs().Bool("binary_output") }

func counting(*kernels.Construction) (bool, error) { return false, nil }
