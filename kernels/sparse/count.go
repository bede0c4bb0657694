package sparse

import (
	"cmp"
	"math"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/printing"
)

// numbered holds the numbers that an op counts, and the row of each.
type numbered struct {
	values, weights *tensor.Tensor
	// row returns the row of value i. It is called for all values, in order.
	row func(i int) int64
	// rows is the number of rows; negative if the counts are a vector.
	rows int64
}

// occurrence is a number at a position.
type occurrence struct {
	row, value int64
	at         int
}

// countKernel counts how often each number occurs in each row, or sums the weights of its occurrences.
type countKernel[W int32 | int64 | float32 | float64] struct {
	read func(ctx *kernels.Context) (numbered, error)
	// least and most bound the width of the counts; numbers from most on are omitted. A negative bound does not apply.
	least, most int64
	binary      bool
}

// countRows returns the rows of an op whose inputs are read by read.
func countRows(read func(ctx *kernels.Context) (numbered, error)) []kernels.Def {
	return []kernels.Def{countRow[int32](read), countRow[int64](read), countRow[float32](read), countRow[float64](read)}
}

func countRow[W int32 | int64 | float32 | float64](read func(ctx *kernels.Context) (numbered, error)) kernels.Def {
	types := map[string][]tensor.DType{"T": {tensor.Int32, tensor.Int64}, "output_type": {element.DTypeOf[W]()}}
	return kernels.Def{Types: types, Expensive: true, New: func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		return &countKernel[W]{read, a.Int("minlength"), a.Int("maxlength"), a.Bool("binary_output")}, a.Err()
	}}
}

// Compute implements kernels.Kernel.
func (k *countKernel[W]) Compute(ctx *kernels.Context) error {
	in, err := k.read(ctx)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	list, err := k.occurrences(&m, in)
	if err != nil {
		return err
	}
	width := k.most
	if width < 0 {
		width = k.least
		for _, o := range list {
			width = max(width, o.value+1)
		}
		width = max(width, 1) // without numbers, TensorFlow assumes a maximum of zero
	}
	// Occurrences of a number are summed up in order.
	err = kernels.SortFunc(ctx, list, func(a, b occurrence) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.value, b.value), cmp.Compare(a.at, b.at))
	})
	if err != nil {
		return err
	}
	return k.write(ctx, in, list, width)
}

// occurrences returns the numbers to count.
func (k *countKernel[W]) occurrences(m *kernels.Meter, in numbered) ([]occurrence, error) {
	if err := m.TakeMany(in.values.Len(), int(unsafe.Sizeof(occurrence{}))); err != nil {
		return nil, err
	}
	values, err := args.ReadIndices(in.values)
	if err != nil {
		return nil, err
	}
	defer values.Free()
	list := make([]occurrence, 0, len(values.V))
	for i, v := range values.V {
		row := in.row(i)
		if in.rows >= 0 && (row < 0 || row >= in.rows) {
			return nil, status.InvalidArgumentf("Indices value along the first dimension must be lower than the first index of the shape.Got %d as batch and %d as the first dimension of the shape.", row, in.rows)
		}
		if k.most < 0 || v < k.most {
			list = append(list, occurrence{row, v, i})
		}
	}
	return list, nil
}

// write outputs the sparse tensor of the sorted occurrences.
func (k *countKernel[W]) write(ctx *kernels.Context, in numbered, list []occurrence, width int64) error {
	distinct := 0
	for i, o := range list {
		if i == 0 || o.row != list[i-1].row || o.value != list[i-1].value {
			distinct++
		}
	}
	shape := []int64{in.rows, width}
	if in.rows < 0 {
		shape = shape[1:]
	}
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(distinct), int64(len(shape))})
	if err != nil {
		return err
	}
	counts, err := ctx.Allocate(1, element.DTypeOf[W](), tensor.Shape{int64(distinct)})
	if err != nil {
		return err
	}
	at, dst, weights := tensor.Of[int64](indices), element.ViewOf[W](counts), element.ViewOf[W](in.weights)
	n := -1
	for i, o := range list {
		if i == 0 || o.row != list[i-1].row || o.value != list[i-1].value {
			n++
			dst[n] = 0
			copy(at[n*len(shape):], []int64{o.row, o.value}[2-len(shape):])
		}
		switch {
		case k.binary:
			dst[n] = 1
		case len(weights) > 0:
			dst[n] += weights[o.at]
		default:
			dst[n]++
		}
	}
	return args.OutputInts(ctx, 2, tensor.Int64, shape)
}

// denseNumbers reads the inputs of DenseCountSparseOutput.
func denseNumbers(ctx *kernels.Context) (numbered, error) {
	in := numbered{values: ctx.Input(0), weights: ctx.Input(1), rows: -1, row: func(int) int64 { return 0 }}
	shape := in.values.Shape()
	if len(shape) != 1 && len(shape) != 2 {
		return in, status.InvalidArgumentf("Input must be a 1 or 2-dimensional tensor. Got: %v", shape)
	}
	if err := in.notNegative(); err != nil {
		return in, err
	}
	if err := in.weighted("data"); err != nil {
		return in, err
	}
	if len(shape) == 2 {
		if shape[0] == 0 {
			return in, status.InvalidArgumentf("Invalid input: Shapes dimension cannot be 0.")
		}
		in.rows = shape[0]
		in.row = func(i int) int64 { return int64(i) / shape[1] }
	}
	return in, nil
}

// sparseNumbers reads the inputs of SparseCountSparseOutput. As in TensorFlow, rows count in 32 bits.
func sparseNumbers(ctx *kernels.Context) (numbered, error) {
	indices, shape := ctx.Input(0), ctx.Input(2)
	in := numbered{values: ctx.Input(1), weights: ctx.Input(3)}
	switch {
	case indices.Rank() != 2:
		return in, status.InvalidArgumentf("Input indices must be a 2-dimensional tensor. Got: %v", indices.Shape())
	case in.values.Rank() != 1:
		return in, status.InvalidArgumentf("Input values must be a vector. Got: %v", in.values.Shape())
	case shape.Rank() != 1:
		return in, status.InvalidArgumentf("Input shape must be a vector. Got: %v", shape.Shape())
	case in.values.Len() != indices.Dim(0):
		return in, status.InvalidArgumentf("Number of values must match first dimension of indices.Got %d values, indices shape: %v", in.values.Len(), indices.Shape())
	case shape.Len() != indices.Dim(1):
		return in, status.InvalidArgumentf("Number of dimensions must match second dimension of indices.Got %d dimensions, indices shape: %v", shape.Len(), indices.Shape())
	case shape.Len() == 0:
		return in, status.InvalidArgumentf("The shape argument requires at least one element.")
	}
	at, sizes := tensor.Of[int64](indices), tensor.Of[int64](shape)
	rank := len(sizes)
	for i, x := range at {
		if size := sizes[i%rank]; x < 0 || x >= size {
			return in, status.InvalidArgumentf("Invalid index value at %d: dimension %d has value %d which is not in [0, %d) (as given by dense shape %s",
				i/rank, i%rank, x, size, printing.DebugText(shape))
		}
	}
	if err := in.notNegative(); err != nil {
		return in, err
	}
	if err := in.weighted("values"); err != nil {
		return in, err
	}
	if rank == 1 {
		in.rows, in.row = -1, func(int) int64 { return 0 }
		return in, nil
	}
	in.rows, in.row = int64(int32(sizes[0])), func(i int) int64 { return int64(int32(at[i*rank])) }
	if in.rows <= 0 || in.rows >= math.MaxInt32 {
		return in, status.InvalidArgumentf("Cannot allocate %d batches, is the dense shape too wide?", in.rows)
	}
	return in, nil
}

// raggedNumbers reads the inputs of RaggedCountSparseOutput.
func raggedNumbers(ctx *kernels.Context) (numbered, error) {
	splits := tensor.Of[int64](ctx.Input(0))
	in := numbered{values: ctx.Input(1), weights: ctx.Input(2), rows: int64(len(splits)) - 1}
	if err := in.weighted("values"); err != nil {
		return in, err
	}
	switch n := in.values.Len(); {
	case in.rows <= 0:
		return in, status.InvalidArgumentf("Must provide at least 2 elements for the splits argument")
	case splits[0] != 0:
		return in, status.InvalidArgumentf("Splits must start with 0, not with %d", splits[0])
	case splits[in.rows] != int64(n):
		return in, status.InvalidArgumentf("Splits must end with the number of values, got %d instead of %d", splits[in.rows], n)
	}
	next := 0 // the split that ends the row; the last one is after all values
	in.row = func(i int) int64 {
		for int64(i) >= splits[next] {
			next++
		}
		return int64(next) - 1
	}
	return in, in.notNegative()
}

// notNegative checks the numbers.
func (in numbered) notNegative() error {
	values, err := args.ReadIndices(in.values)
	if err != nil {
		return err
	}
	defer values.Free()
	for _, v := range values.V {
		if v < 0 {
			return status.InvalidArgumentf("Input values must all be non-negative")
		}
	}
	return nil
}

// weighted checks the weights: there must be none, or one for each number.
func (in numbered) weighted(what string) error {
	if w := in.weights; w.Len() > 0 && !w.Shape().Equal(in.values.Shape()) {
		return status.InvalidArgumentf("Weights and %s must have the same shape. Weight shape: %v; %s shape: %v", what, w.Shape(), what, in.values.Shape())
	}
	return nil
}
