package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// joinTensors makes output 0, of the given shape, of parts that lie one after the other along axis.
func joinTensors(ctx *Context, shape tensor.Shape, axis int, parts []*tensor.Tensor) error {
	out, err := ctx.Allocate(0, parts[0].DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	before, after := around(shape, axis)
	if !out.OnHost() {
		joinOn(ctx, out, before, parts)
		return nil
	}
	total := int(shape[axis]) * after
	at, runs := 0, before > 1
	nests := make([]*nest, 0, len(parts))
	for _, p := range parts {
		if p.Len() > 0 {
			n := p.Len() / before
			nests = append(nests, newNest([]int{before, n}, []int{total, 1}, []int{n, 1}, at, 0))
			at += n
			runs = runs && n > 1
		}
	}
	if runs && out.Len()*moveBytes(out.DType()) > moveGrain {
		joinRows(ctx, out, parts, nests, before)
		return nil
	}
	for _, p := range parts {
		if p.Len() > 0 {
			move(ctx, out, p, nests[0])
			nests = nests[1:]
		}
	}
	return nil
}

// joinRows runs the nests of the parts a few rows at a time, so that the output is written from
// its start to its end.
func joinRows(ctx *Context, out *tensor.Tensor, parts []*tensor.Tensor, nests []*nest, rows int) {
	const few = 8
	full := make([]*tensor.Tensor, 0, len(nests))
	for _, p := range parts {
		if p.Len() > 0 {
			full = append(full, p)
		}
	}
	m := moverOf(out.DType())
	row := out.Len() / rows * moveBytes(out.DType())
	ctx.Device.Parallel(rows, max(1, moveGrain/row), func(lo, hi int) {
		for ; lo < hi; lo += few {
			for i, p := range full {
				m.nest(out, p, nests[i], lo, min(lo+few, hi))
			}
		}
	})
}

func inputs(ctx *Context, from, to int) []*tensor.Tensor {
	list := make([]*tensor.Tensor, to-from)
	for i := range list {
		list[i] = ctx.Input(from + i)
	}
	return list
}

// concat joins tensors along the axis that input number axisInput tells.
func concat(ctx *Context, axisInput int, parts []*tensor.Tensor) error {
	name := "axis"
	if axisInput == 0 {
		name = "concat_dim"
	}
	if a := ctx.Input(axisInput); a.Len() != 1 || a.Rank() > 1 {
		return status.InvalidArgumentf("%s tensor should be a scalar integer, but got shape %v", name, a.Shape())
	}
	dim, err := scalarInt(ctx, axisInput, name+" tensor")
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return status.InvalidArgumentf("ConcatOp : Expected at least one input")
	}
	first := parts[0].Shape()
	axis, ok := wrapAxis(dim, len(first))
	if len(first) == 0 {
		return status.InvalidArgumentf("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
	}
	if !ok {
		return status.InvalidArgumentf("ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got %d", -len(first), len(first), dim)
	}
	sizes := make([]int64, len(parts))
	for i, p := range parts {
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
	total, ok := addSize(sizes...)
	if !ok {
		return status.InvalidArgumentf("ConcatOp : The sizes of dimension %d do not fit 63 bits", axis)
	}
	return joinTensors(ctx, replaced(first, axis, axis+1, total), axis, parts)
}

func concatV1(ctx *Context) error { return concat(ctx, 0, inputs(ctx, 1, len(ctx.Inputs))) }

func concatV2(ctx *Context) error {
	n := len(ctx.Inputs) - 1
	return concat(ctx, n, inputs(ctx, 0, n))
}

// concatOffset yields, for shapes that are to be joined, where each one starts.
func concatOffset(ctx *Context) error {
	if ctx.Input(0).Rank() != 0 {
		return status.InvalidArgumentf("Concat dim tensor should be a scalar integer, but got shape %v", ctx.Input(0).Shape())
	}
	dim, err := scalarInt(ctx, 0, "Concat dim tensor")
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
			if axis, ok = wrapAxis(dim, len(first)); !ok {
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
					axis, i-1, summary(ctx.Input(i), 10), summary(ctx.Input(1), 10))
			}
		}
		if err := outputInts(ctx, i-1, dtype, out); err != nil {
			return err
		}
		offset += shape[axis]
	}
	return nil
}

// newPack makes the kernel that joins tensors of one shape along a new axis.
func newPack(c *Construction) (any, error) {
	attr, err := c.Attrs().Int("axis")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		n := len(ctx.Inputs)
		if n == 0 {
			return status.InvalidArgumentf("Pack needs at least one input")
		}
		first := ctx.Input(0)
		rank := first.Rank() + 1
		axis, ok := wrapAxis(attr, rank)
		if !ok {
			return status.InvalidArgumentf("axis = %d not in [%d, %d)", attr, -rank, rank)
		}
		parts := inputs(ctx, 0, n)
		for i, p := range parts {
			if !p.Shape().Equal(first.Shape()) || p.DType() != first.DType() {
				return status.InvalidArgumentf("Shapes of all inputs must match: values[0].shape = %v != values[%d].shape = %v", first.Shape(), i, p.Shape())
			}
		}
		shape := replaced(first.Shape(), axis, axis, int64(n))
		if n == 1 {
			ctx.SetOutput(0, first.Reshaped(shape))
			return nil
		}
		return joinTensors(ctx, shape, axis, parts)
	}), nil
}

// cut makes output o, of the given shape, of size columns of t from column at on, where t is seen
// as a matrix of rows rows. Whole rows are shared, not copied.
func cut(ctx *Context, o int, t *tensor.Tensor, shape tensor.Shape, rows, at, size int) error {
	columns := 0
	if rows > 0 {
		columns = t.Len() / rows
	}
	if rows == 1 && shareable(t, at, size) {
		shared, err := part(ctx, t, shape, at, size)
		if err == nil {
			ctx.SetOutput(o, shared)
		}
		return err
	}
	out, err := ctx.Allocate(o, t.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	move(ctx, out, t, newNest([]int{rows, size}, []int{size, 1}, []int{columns, 1}, 0, at))
	return nil
}

// shareable tells whether a part of a tensor is better shared than copied: it starts where
// vector loads like it, and is not so small a part that it would hold on to much for little.
func shareable(t *tensor.Tensor, at, size int) bool {
	bytes := t.DType().Size()
	return bytes > 0 && size > 0 && at*bytes%tensor.Alignment == 0 && size*bytes >= 64 && size >= t.Len()/64
}

// split cuts t along axis into outputs of the given sizes, whose sum is the size of t.
func split(ctx *Context, t *tensor.Tensor, axis int, sizes []int64, drop bool) error {
	rows, after := around(t.Shape(), axis)
	at := 0
	for o, size := range sizes {
		shape := replaced(t.Shape(), axis, axis+1, size)
		if drop {
			shape = replaced(t.Shape(), axis, axis+1)
		}
		n := int(size) * after
		if err := cut(ctx, o, t, shape, rows, at, n); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func newUnpack(c *Construction) (any, error) {
	attr, err := c.Attrs().Int("axis")
	if err != nil {
		return nil, err
	}
	num, err := c.Attrs().Int("num")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		t := ctx.Input(0)
		axis, ok := wrapAxis(attr, t.Rank())
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

// runSplit cuts input 1 along the axis of input 0 into as many equal parts as there are outputs.
func runSplit(ctx *Context) error {
	t, n := ctx.Input(1), len(ctx.Outputs)
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

func splitAxis(ctx *Context, i int, t *tensor.Tensor) (int, error) {
	if s := ctx.Input(i); s.Len() != 1 {
		return 0, status.InvalidArgumentf("split_dim must be a scalar but has rank %d", s.Rank())
	}
	dim, err := scalarInt(ctx, i, "split_dim")
	if err != nil {
		return 0, err
	}
	axis, ok := wrapAxis(dim, t.Rank())
	if !ok {
		return 0, status.InvalidArgumentf("-input rank(-%d) <= split_dim < input rank (%d), but got %d", t.Rank(), t.Rank(), dim)
	}
	return axis, nil
}

// runSplitV cuts input 0 along the axis of input 2 into parts of the sizes of input 1, of which
// one may be -1: what is left.
func runSplitV(ctx *Context) error {
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
			// Sums beyond the size stop at one more than it, so that they cannot overflow.
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

// splitSizes reads sizes, which may be int8 too.
func splitSizes(ctx *Context, i int) ([]int64, error) {
	list, err := readSmallIndices(ctx.Input(i))
	if err != nil {
		return nil, err
	}
	defer list.free()
	return append([]int64(nil), list.v...), nil
}
