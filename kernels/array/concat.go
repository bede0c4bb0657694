package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/printing"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// concat joins tensors along the axis in input axisInput.
func concat(ctx *kernels.Context, axisInput int, parts []*tensor.Tensor) error {
	name := "axis"
	if axisInput == 0 {
		name = "concat_dim"
	}
	if a := ctx.Input(axisInput); a.Len() != 1 || a.Rank() > 1 {
		return status.InvalidArgumentf("%s tensor should be a scalar integer, but got shape %v", name, a.Shape())
	}
	dim, err := args.ScalarInt(ctx, axisInput, name+" tensor")
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return status.InvalidArgumentf("ConcatOp : Expected at least one input")
	}
	first := parts[0].Shape()
	axis, ok := shapes.WrapAxis(dim, len(first))
	if len(first) == 0 {
		return status.InvalidArgumentf("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
	}
	if !ok {
		return status.InvalidArgumentf("ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got %d", -len(first), len(first), dim)
	}
	sizes := make([]int64, len(parts))
	for i, p := range parts {
		if p.Rank() == 0 {
			return status.InvalidArgumentf("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
		}
		if p.Rank() != len(first) {
			return status.InvalidArgumentf("ConcatOp : Ranks of all input tensors should match: shape[0] = %v vs. shape[%d] = %v", first, i, p.Shape())
		}
		if p.DType() != parts[0].DType() {
			return status.InvalidArgumentf("ConcatOp : Types of all input tensors should match: %v vs. %v", parts[0].DType(), p.DType())
		}
		for j, d := range p.Shape() {
			if j != axis && d != first[j] {
				return status.InvalidArgumentf("ConcatOp : Dimension %d in both shapes must be equal: shape[0] = %v vs. shape[%d] = %v", j, first, i, p.Shape())
			}
		}
		sizes[i] = p.Shape()[axis]
	}
	total, ok := shapes.AddSize(sizes...)
	if !ok {
		return status.InvalidArgumentf("ConcatOp : The sizes of dimension %d do not fit 63 bits", axis)
	}
	return layout.JoinTensors(ctx, shapes.Replaced(first, axis, axis+1, total), axis, parts)
}

func concatV1(ctx *kernels.Context) error {
	return concat(ctx, 0, args.Inputs(ctx, 1, len(ctx.Inputs)))
}

func concatV2(ctx *kernels.Context) error {
	n := len(ctx.Inputs) - 1
	return concat(ctx, n, args.Inputs(ctx, 0, n))
}

// concatOffset returns, for the shapes of tensors to be joined, the offset of each.
func concatOffset(ctx *kernels.Context) error {
	if ctx.Input(0).Rank() != 0 {
		return status.InvalidArgumentf("Concat dim tensor should be a scalar integer, but got shape %v", ctx.Input(0).Shape())
	}
	dim, err := args.ScalarInt(ctx, 0, "Concat dim tensor")
	if err != nil {
		return err
	}
	if len(ctx.Inputs) == 1 {
		return nil
	}
	dtype := ctx.Input(1).DType()
	var first []int64
	var axis int
	var offset int64
	for i := 1; i < len(ctx.Inputs); i++ {
		if t := ctx.Input(i); t.Rank() != 1 {
			return status.InvalidArgumentf("input %d should be a vector, but got shape %v", i, t.Shape())
		}
		shape, err := ctx.Ints(i)
		if err != nil {
			return err
		}
		if first == nil {
			first = shape
			var ok bool
			if axis, ok = shapes.WrapAxis(dim, len(first)); !ok {
				return status.InvalidArgumentf("Concat dim is out of range: %d vs. %d", dim, len(first))
			}
		}
		if len(shape) != len(first) {
			return status.InvalidArgumentf("input %d should contain %d elements, but got %d", i, len(first), len(shape))
		}
		out := make([]int64, len(first))
		for j, d := range shape {
			if j == axis {
				out[j] = offset
			} else if d != first[j] {
				return status.InvalidArgumentf("All dimensions except %d must match. Input %d has shape [%s] and doesn't match input 0 with shape [%s].",
					axis, i-1, printing.Summary(ctx.Input(i), 10), printing.Summary(ctx.Input(1), 10))
			}
		}
		if err := args.OutputInts(ctx, i-1, dtype, out); err != nil {
			return err
		}
		offset += shape[axis]
	}
	return nil
}

// newPack returns the kernel that stacks tensors of the same shape along a new axis.
func newPack(c *kernels.Construction) (any, error) {
	attr, err := c.Attrs().Int("axis")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		n := len(ctx.Inputs)
		if n == 0 {
			return status.InvalidArgumentf("Pack needs at least one input")
		}
		first := ctx.Input(0)
		rank := first.Rank() + 1
		axis, ok := shapes.WrapAxis(attr, rank)
		if !ok {
			return status.InvalidArgumentf("axis = %d not in [%d, %d)", attr, -rank, rank)
		}
		parts := args.Inputs(ctx, 0, n)
		for i, p := range parts {
			if !p.Shape().Equal(first.Shape()) || p.DType() != first.DType() {
				return status.InvalidArgumentf("Shapes of all inputs must match: values[0].shape = %v != values[%d].shape = %v", first.Shape(), i, p.Shape())
			}
		}
		shape := shapes.Replaced(first.Shape(), axis, axis, int64(n))
		if n == 1 {
			ctx.SetOutput(0, first.Reshaped(shape))
			return nil
		}
		return layout.JoinTensors(ctx, shape, axis, parts)
	}), nil
}

// cut sets output o, of the given shape, to size columns of t, starting at column at, where t is viewed as a matrix with the given number
// of rows. Whole rows are shared, not copied.
func cut(ctx *kernels.Context, o int, t *tensor.Tensor, shape tensor.Shape, rows, at, size int) error {
	columns := 0
	if rows > 0 {
		columns = t.Len() / rows
	}
	if rows == 1 && layout.Shareable(t, at, size) {
		shared, err := layout.Part(ctx, t, shape, at, size)
		if err == nil {
			ctx.SetOutput(o, shared)
		}
		return err
	}
	out, err := ctx.Allocate(o, t.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	layout.Move(ctx, out, t, layout.NewNest([]int{rows, size}, []int{size, 1}, []int{columns, 1}, 0, at))
	return nil
}

// split splits t along axis into outputs of the given sizes, whose sum is the size of t.
func split(ctx *kernels.Context, t *tensor.Tensor, axis int, sizes []int64, drop bool) error {
	rows, after := shapes.Around(t.Shape(), axis)
	at := 0
	for o, size := range sizes {
		if err := ctx.Ended(); err != nil { // outputs that share the input's memory allocate nothing, so check here
			return err
		}
		shape := shapes.Replaced(t.Shape(), axis, axis+1, size)
		if drop {
			shape = shapes.Replaced(t.Shape(), axis, axis+1)
		}
		n := int(size) * after
		if err := cut(ctx, o, t, shape, rows, at, n); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func newUnpack(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	attr, num := a.Int("axis"), a.Int("num")
	if err := a.Err(); err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		axis, ok := shapes.WrapAxis(attr, t.Rank())
		if !ok {
			return status.InvalidArgumentf("axis = %d not in [%d, %d)", attr, -t.Rank(), t.Rank())
		}
		if t.Shape()[axis] != num || int(num) != len(ctx.Outputs) {
			return status.InvalidArgumentf("Input shape axis %d must equal %d, got shape %v", axis, num, t.Shape())
		}
		sizes := make([]int64, num)
		for i := range sizes {
			sizes[i] = 1
		}
		return split(ctx, t, axis, sizes, true)
	}), nil
}

// runSplit splits input 1 along the axis in input 0 into equal parts, one for each output.
func runSplit(ctx *kernels.Context) error {
	t, n := ctx.Input(1), len(ctx.Outputs)
	if d := ctx.Input(0); d.Rank() != 0 {
		return status.InvalidArgumentf("split_dim must be a scalar but has rank %d", d.Rank())
	}
	axis, err := splitAxis(ctx, 0, t)
	if err != nil {
		return err
	}
	if n == 0 {
		return status.InvalidArgumentf("Number of ways to split should be > 0, but got %d", n)
	}
	if t.Dim(axis)%n != 0 {
		return status.InvalidArgumentf("Number of ways to split should evenly divide the split dimension, but got split_dim %d (size = %d) and num_split %d",
			axis, t.Dim(axis), n)
	}
	if n == 1 {
		ctx.Pass(1, 0)
		return nil
	}
	sizes := make([]int64, n)
	for i := range sizes {
		sizes[i] = int64(t.Dim(axis) / n)
	}
	return split(ctx, t, axis, sizes, false)
}

func splitAxis(ctx *kernels.Context, i int, t *tensor.Tensor) (int, error) {
	dim, err := args.ScalarInt(ctx, i, "split_dim")
	if err != nil {
		return 0, err
	}
	axis, ok := shapes.WrapAxis(dim, t.Rank())
	if !ok {
		return 0, status.InvalidArgumentf("-input rank(-%d) <= split_dim < input rank (%d), but got %d", t.Rank(), t.Rank(), dim)
	}
	return axis, nil
}

// runSplitV splits input 0 along the axis in input 2 into parts with the sizes in input 1. One of the sizes may be -1, for the remainder.
func runSplitV(ctx *kernels.Context) error {
	t, n := ctx.Input(0), len(ctx.Outputs)
	if s := ctx.Input(1); s.Rank() != 1 || s.Len() != n {
		return status.InvalidArgumentf("size of the split_tensor must be 1-D and have the same elements as outputs got %d -D and %d elements", s.Rank(), s.Len())
	}
	sizes, err := splitSizes(ctx, 1)
	if err != nil {
		return err
	}
	if n == 0 {
		return status.InvalidArgumentf("Number of ways to split should be > 0, but got %d", n)
	}
	if ctx.Input(2).Len() != 1 {
		return status.InvalidArgumentf("split_dim_tensor must have exactly one element.")
	}
	axis, err := splitAxis(ctx, 2, t)
	if err != nil {
		return err
	}
	left, unknown := t.Shape()[axis], -1
	total := int64(0)
	for i, s := range sizes {
		switch {
		case s == -1 && unknown >= 0:
			return status.InvalidArgumentf("There can only be one -1 in the input.")
		case s == -1:
			unknown = i
		case s < 0:
			return status.InvalidArgumentf("Split size at index %d must be >= 0. Got: %d", i, s)
		default:
			// Cap sums at one more than the size, so that they cannot overflow.
			total = min(total+min(s, left+1), left+1)
		}
	}
	if n == 1 && unknown < 0 && sizes[0] != left {
		return status.InvalidArgumentf("If there is only one output, it must have the same size as the input. Input size: %d output size: %d", left, sizes[0])
	}
	if total > left || unknown < 0 && total != left {
		return status.InvalidArgumentf("Determined shape must either match input shape along split_dim exactly if fully specified, or be less than the size of the input along split_dim if not fully specified.  Got: %d", total)
	}
	if unknown >= 0 {
		sizes[unknown] = left - total
	}
	if n == 1 {
		ctx.Pass(0, 0)
		return nil
	}
	return split(ctx, t, axis, sizes, false)
}

// splitSizes reads sizes, which may also be int8.
func splitSizes(ctx *kernels.Context, i int) ([]int64, error) {
	list, err := readSmallIndices(ctx.Input(i))
	if err != nil {
		return nil, err
	}
	defer list.Free()
	return append([]int64(nil), list.V...), nil
}
