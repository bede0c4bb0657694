package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// band is a range of diagonals of matrices. Their compact form has one row for each diagonal, from the uppermost down, as long as the
// longest of them. Diagonal 0 is the main one; those above it are positive.
type band struct {
	lower, upper       int
	rows, cols, length int
	leftAbove, leftLow bool // whether shorter diagonals start at the left of their rows
}

// readAlign reads the alignment attribute of the V3 ops. Older ops align left.
func readAlign(c *kernels.Construction) (b band, err error) {
	if _, ok := c.Attrs()["align"]; !ok {
		return band{leftAbove: true, leftLow: true}, nil
	}
	align, err := c.Attrs().Str("align")
	if err != nil {
		return b, err
	}
	b.leftAbove = align == "LEFT_LEFT" || align == "LEFT_RIGHT"
	b.leftLow = align == "LEFT_LEFT" || align == "RIGHT_LEFT"
	return b, nil
}

// readRange reads the range of diagonals from input i: one diagonal, or the lowest and the uppermost.
func (b *band) readRange(ctx *kernels.Context, i int) error {
	t := ctx.Input(i)
	if t.Rank() > 1 {
		return status.InvalidArgumentf("diag_index must be a scalar or vector, received shape: %v", t.Shape())
	}
	if t.Len() == 0 {
		return status.InvalidArgumentf("Expected diag_index to have at least 1 element")
	}
	if t.Len() > 2 {
		return status.InvalidArgumentf("diag_index must have only one or two elements, received %d elements.", t.Len())
	}
	list, err := ctx.Ints(i)
	if err != nil {
		return err
	}
	b.lower, b.upper = int(list[0]), int(list[len(list)-1])
	return nil
}

func (b *band) ordered() error {
	if b.lower > b.upper {
		return status.InvalidArgumentf("lower_diag_index must not be larger than upper_diag_index: %d > %d", b.lower, b.upper)
	}
	return nil
}

// of sets the sizes of the matrices in the last two dimensions of t. It returns an error if they lack the diagonals.
func (b *band) of(t *tensor.Tensor) error {
	rank := t.Rank()
	if rank < 2 {
		return status.InvalidArgumentf("input must be at least 2-dim, received shape: %v", t.Shape())
	}
	b.rows, b.cols = t.Dim(rank-2), t.Dim(rank-1)
	legal := func(d int) bool { return d == 0 || -b.rows < d && d < b.cols }
	if !legal(b.lower) {
		return status.InvalidArgumentf("lower_diag_index is out of bound: %d. It must be between %d and %d", b.lower, -b.rows, b.cols)
	}
	if !legal(b.upper) {
		return status.InvalidArgumentf("upper_diag_index is out of bound: %d It must be between %d and %d", b.upper, -b.rows, b.cols)
	}
	b.length = min(b.rows+min(b.upper, 0), b.cols-max(b.lower, 0))
	return b.ordered()
}

func (b *band) count() int { return b.upper - b.lower + 1 }

// compact returns the shape of the compact form for a batch of matrices.
func (b *band) compact(batch tensor.Shape) tensor.Shape {
	if b.count() > 1 {
		return shapes.Replaced(batch, len(batch), len(batch), int64(b.count()), int64(b.length))
	}
	return shapes.Replaced(batch, len(batch), len(batch), int64(b.length))
}

// each calls f for each diagonal with its length and its offsets in the compact form and in the matrix.
func (b *band) each(f func(length, compact, matrix int)) {
	for d := b.upper; d >= b.lower; d-- {
		n := min(b.rows+min(d, 0), b.cols-max(d, 0))
		at := (b.upper - d) * b.length
		if !(d >= 0 && b.leftAbove || d <= 0 && b.leftLow) {
			at += b.length - n
		}
		start := d
		if d < 0 {
			start = -d * b.cols
		}
		if n > 0 {
			f(n, at, start)
		}
	}
}

// scatter copies the diagonals of n matrices from the compact form to the matrices, gather copies them back.
func (b *band) scatter(ctx *kernels.Context, matrices, diagonals *tensor.Tensor, n int) {
	b.each(func(length, compact, matrix int) {
		layout.Move(ctx, matrices, diagonals, layout.NewNest([]int{n, length}, []int{b.rows * b.cols, b.cols + 1}, []int{b.count() * b.length, 1}, matrix, compact))
	})
}

func (b *band) gather(ctx *kernels.Context, diagonals, matrices *tensor.Tensor, n int) {
	b.each(func(length, compact, matrix int) {
		layout.Move(ctx, diagonals, matrices, layout.NewNest([]int{n, length}, []int{b.count() * b.length, 1}, []int{b.rows * b.cols, b.cols + 1}, compact, matrix))
	})
}

// padOutput fills a new output with the scalar in input i, or with zeros if there is no such input.
func padOutput(ctx *kernels.Context, out *tensor.Tensor, i int) error {
	if i >= len(ctx.Inputs) {
		layout.Zero(ctx, out)
		return nil
	}
	v := ctx.Input(i)
	if v.Len() != 1 || v.DType() != out.DType() {
		return status.InvalidArgumentf("padding_value must be a scalar of type %v, received %v%v", out.DType(), v.DType(), v.Shape())
	}
	layout.Fill(ctx, out, v)
	return nil
}

func newMatrixDiagPart(c *kernels.Construction) (any, error) {
	align, err := readAlign(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		b, t := align, ctx.Input(0)
		if len(ctx.Inputs) > 1 {
			if err := b.readRange(ctx, 1); err != nil {
				return err
			}
		}
		if err := b.of(t); err != nil {
			return err
		}
		batch := t.Shape()[:t.Rank()-2]
		out, err := ctx.Allocate(0, t.DType(), b.compact(batch))
		if err != nil {
			return err
		}
		if err := padOutput(ctx, out, 2); err != nil {
			return err
		}
		b.gather(ctx, out, t, batch.Elements())
		return nil
	}), nil
}

func newMatrixDiag(c *kernels.Construction) (any, error) {
	align, err := readAlign(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return matrixDiag(ctx, align) }), nil
}

func matrixDiag(ctx *kernels.Context, b band) error {
	t := ctx.Input(0)
	rows, cols := int64(-1), int64(-1)
	if len(ctx.Inputs) > 1 {
		if err := b.readRange(ctx, 1); err != nil {
			return err
		}
		for i, name := range []string{"num_rows", "num_cols", "padding_value"} {
			if ctx.Input(2+i).Rank() != 0 {
				return status.InvalidArgumentf("%s must be a scalar, not %v", name, ctx.Input(2+i).Shape())
			}
		}
		var err1, err2 error
		rows, err1 = args.ScalarInt(ctx, 2, "num_rows")
		cols, err2 = args.ScalarInt(ctx, 3, "num_cols")
		if err := args.FirstError(err1, err2); err != nil {
			return err
		}
	}
	rank := t.Rank()
	if rank == 0 {
		return status.InvalidArgumentf("diagonal must be at least 1-dim, received shape: %v", t.Shape())
	}
	if err := b.ordered(); err != nil {
		return err
	}
	if b.count() > 1 && t.Dim(max(rank-2, 0)) != b.count() || b.count() > 1 && rank < 2 {
		return status.InvalidArgumentf("The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index range.")
	}
	b.length = t.Dim(rank - 1)
	leastRows, leastCols := int64(b.length-min(b.upper, 0)), int64(b.length+max(b.lower, 0))
	switch {
	case rows != -1 && rows < leastRows:
		return status.InvalidArgumentf("The number of rows is too small.")
	case cols != -1 && cols < leastCols:
		return status.InvalidArgumentf("The number of columns is too small.")
	case rows == -1 && cols == -1:
		rows = max(leastRows, leastCols)
		cols = rows
	case rows == -1:
		rows = leastRows
	case cols == -1:
		cols = leastCols
	}
	if rows != leastRows && cols != leastCols {
		return status.InvalidArgumentf("The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal.")
	}
	b.rows, b.cols = int(rows), int(cols)
	lead := rank - 1
	if b.count() > 1 {
		lead = rank - 2
	}
	batch := t.Shape()[:lead]
	out, err := ctx.Allocate(0, t.DType(), shapes.Replaced(batch, lead, lead, rows, cols))
	if err != nil {
		return err
	}
	if err := padOutput(ctx, out, 4); err != nil {
		return err
	}
	b.scatter(ctx, out, t, batch.Elements())
	return nil
}

func newMatrixSetDiag(c *kernels.Construction) (any, error) {
	align, err := readAlign(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		b, t, diagonal := align, ctx.Input(0), ctx.Input(1)
		if len(ctx.Inputs) > 2 {
			if err := b.readRange(ctx, 2); err != nil {
				return err
			}
		}
		if t.Rank() >= 2 && diagonal.Rank() == 0 {
			return status.InvalidArgumentf("diagonal must be at least 1-dim, received shape: %v", diagonal.Shape())
		}
		if err := b.of(t); err != nil {
			return err
		}
		batch := t.Shape()[:t.Rank()-2]
		if want := b.compact(batch); !diagonal.Shape().Equal(want) || diagonal.DType() != t.DType() {
			return status.InvalidArgumentf("Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: %v\nDiagonal shape: %v\nExpected diagonal shape: %v",
				t.Shape(), diagonal.Shape(), want)
		}
		out, err := writable(ctx)
		if err != nil {
			return err
		}
		b.scatter(ctx, out, diagonal, batch.Elements())
		return nil
	}), nil
}

// matrixBandPart copies matrices and clears everything outside a band: the main diagonal and given numbers of diagonals below and above it.
// A negative number means all.
func matrixBandPart(ctx *kernels.Context) error {
	t := ctx.Input(0)
	rank := t.Rank()
	if rank < 2 {
		return status.InvalidArgumentf("input must be at least 2-dim, received shape: %v", t.Shape())
	}
	rows, cols := t.Dim(rank-2), t.Dim(rank-1)
	if s := ctx.Input(1); s.Rank() != 0 {
		return status.InvalidArgumentf("num_lower must be scalar, got shape %v", s.Shape())
	}
	if s := ctx.Input(2); s.Rank() != 0 {
		return status.InvalidArgumentf("num_upper must be scalar, got shape %v", s.Shape())
	}
	lower, err1 := args.ScalarInt(ctx, 1, "num_lower")
	upper, err2 := args.ScalarInt(ctx, 2, "num_upper")
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	if lower > int64(rows) {
		return status.InvalidArgumentf("num_lower must be negative or less or equal to number of rows (%d) got: %d", rows, lower)
	}
	if upper > int64(cols) {
		return status.InvalidArgumentf("num_upper must be negative or less or equal to number of columns (%d) got: %d", cols, upper)
	}
	if t.Len() == 0 || lower < 0 && upper < 0 {
		ctx.Pass(0, 0)
		return nil
	}
	size := t.DType().Size()
	if size == 0 {
		return status.Unimplementedf("MatrixBandPart of elements of type %v is not supported", t.DType())
	}
	out, err := writable(ctx)
	if err != nil {
		return err
	}
	if !out.OnHost() {
		bandPartOn(ctx, out, rows, cols, lower, upper)
		return nil
	}
	data := out.Data()
	for at := 0; at < len(data); at += rows * cols * size {
		for r := range rows {
			row := data[at+r*cols*size : at+(r+1)*cols*size]
			if lower >= 0 {
				clear(row[:min(max(r-int(lower), 0), cols)*size])
			}
			if upper >= 0 {
				clear(row[min(r+int(upper)+1, cols)*size:])
			}
		}
	}
	return nil
}

// diag returns a tensor of twice the rank with the input on its diagonal. diagPart is the inverse.
func diag(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if t.Rank() == 0 {
		return status.InvalidArgumentf("Input must be at least rank 1, got 0")
	}
	out, err := ctx.Allocate(0, t.DType(), append(t.Shape().Clone(), t.Shape()...))
	if err != nil {
		return err
	}
	layout.Zero(ctx, out)
	if t.Len() > 0 {
		layout.Move(ctx, out, t, layout.NewNest([]int{t.Len()}, []int{t.Len() + 1}, []int{1}, 0, 0))
	}
	return nil
}

func diagPart(ctx *kernels.Context) error {
	t := ctx.Input(0)
	half := t.Rank() / 2
	if t.Rank()%2 != 0 {
		return status.InvalidArgumentf("The rank of the tensor should be even and positive, got shape %v", t.Shape())
	}
	for i := range half {
		if t.Dim(i) != t.Dim(i+half) {
			return status.InvalidArgumentf("Invalid shape %v: dimensions %d and %d do not match.", t.Shape(), i, i+half)
		}
	}
	out, err := ctx.Allocate(0, t.DType(), t.Shape()[:half])
	if err != nil || out.Len() == 0 {
		return err
	}
	layout.Move(ctx, out, t, layout.NewNest([]int{out.Len()}, []int{1}, []int{out.Len() + 1}, 0, 0))
	return nil
}
