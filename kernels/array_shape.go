package kernels

import (
	"math"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// shapeWriter reads the attribute that tells how shapes come out, int32 or int64, and gives the
// function that makes output o a vector of a shape.
func shapeWriter(c *Construction, attr string) (func(ctx *Context, o int, s tensor.Shape) error, error) {
	dtype, err := intAttr(c, attr)
	if err != nil {
		return nil, err
	}
	return func(ctx *Context, o int, s tensor.Shape) error { return outputInts(ctx, o, dtype, s) }, nil
}

// intAttr reads a type attribute that must be int32 or int64.
func intAttr(c *Construction, attr string) (tensor.DType, error) {
	dtype, err := c.Attrs().Type(attr)
	if err == nil && dtype != tensor.Int32 && dtype != tensor.Int64 {
		err = status.InvalidArgumentf("Value for attr '%s' of %v is not in the list of allowed values: int32, int64", attr, dtype)
	}
	return dtype, err
}

// outputInts makes output o a vector of int32 or int64 values. One that does not fit int32 is
// refused, as a dimension is by TensorFlow's Shape op.
func outputInts(ctx *Context, o int, dtype tensor.DType, values []int64) error {
	out, err := ctx.Allocate(o, dtype, tensor.Shape{int64(len(values))})
	if err != nil {
		return err
	}
	if dtype == tensor.Int64 {
		copy(tensor.Of[int64](out), values)
		return nil
	}
	for i, v := range values {
		if v > math.MaxInt32 || v < math.MinInt32 {
			return status.InvalidArgumentf("%s output type is 32-bit but dim %d is %d", ctx.Node.Op, i, v)
		}
		tensor.Of[int32](out)[i] = int32(v)
	}
	return nil
}

func newShape(c *Construction) (any, error) {
	write, err := shapeWriter(c, "out_type")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		for i := range ctx.Inputs {
			if err := write(ctx, i, ctx.Input(i).Shape()); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

func newSize(c *Construction) (any, error) {
	dtype, err := intAttr(c, "out_type")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		n := ctx.Input(0).Len()
		if dtype == tensor.Int64 {
			ctx.SetOutput(0, tensor.Scalar(dtype, int64(n)))
			return nil
		}
		if n > math.MaxInt32 {
			return status.InvalidArgumentf("Number of elements was larger than representable by 32-bit output type")
		}
		ctx.SetOutput(0, tensor.Scalar(dtype, int32(n)))
		return nil
	}), nil
}

func rank(ctx *Context) error {
	ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(ctx.Input(0).Rank())))
	return nil
}

// reshape yields input 0 with the sizes of input 1, of which one may be -1: what is left over.
func reshape(ctx *Context) error {
	t, sizes := ctx.Input(0), ctx.Input(1)
	// TensorFlow takes a scalar for a vector of one size, too.
	if sizes.Rank() > 1 {
		return status.InvalidArgumentf("sizes input must be 1-D, not %v", sizes.Shape())
	}
	if sizes.Len() > tensor.MaxRank {
		return status.InvalidArgumentf("too many dimensions: must be < %d, but received %d", tensor.MaxRank, sizes.Len())
	}
	list, err := readIndices(sizes)
	if err != nil {
		return status.InvalidArgumentf("desired shape must be a DT_INT32 or DT_INT64 vector, not a %v", sizes.DType())
	}
	defer list.free()
	var room [8]int64
	shape := tensor.Shape(append(room[:0], list.v...))
	if err := inferShape(shape, t.Shape()); err != nil {
		return err
	}
	ctx.SetOutput(0, t.Reshaped(shape))
	return nil
}

// inferShape puts the size that the elements of a tensor of shape in leave in the place of a -1.
// As in TensorFlow, sizes of zero are left out of the division on both sides.
func inferShape(shape, in tensor.Shape) error {
	unknown, product, zero := -1, int64(1), false
	for i, d := range shape {
		switch {
		case d == -1:
			if unknown >= 0 {
				return status.InvalidArgumentf("Only one input size may be -1, not both %d and %d", unknown, i)
			}
			unknown = i
		case d < 0:
			return status.InvalidArgumentf("Size %d must be non-negative, not %d", i, d)
		case d == 0:
			zero = true
		default:
			var ok bool
			if product, ok = mulSize(product, d); !ok {
				return status.InvalidArgumentf("Shape [%s] has too many elements", spaced(shape))
			}
		}
	}
	if unknown >= 0 {
		left, skipped := int64(1), false
		for _, d := range in {
			if d == 0 && zero {
				skipped = true
			} else {
				left *= d
			}
		}
		shape[unknown] = left / product
		if !skipped && shape[unknown]*product != left {
			return status.InvalidArgumentf("Input to reshape is a tensor with %d values, but the requested shape requires a multiple of %d", left, product)
		}
		product *= shape[unknown]
	}
	if zero {
		product = 0
	}
	if n := int64(in.Elements()); product != n {
		return status.InvalidArgumentf("Input to reshape is a tensor with %d values, but the requested shape has %d", n, product)
	}
	return nil
}

func joinInts(values []int64) string {
	s := make([]string, len(values))
	for i, v := range values {
		s[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(s, ",")
}

func expandDims(ctx *Context) error {
	t := ctx.Input(0)
	if ctx.Input(1).Len() != 1 {
		return status.InvalidArgumentf("'dim' must be a tensor with a single value")
	}
	dim, err := scalarInt(ctx, 1, "dim")
	if err != nil {
		return err
	}
	axis, ok := wrapAxis(dim, t.Rank()+1)
	if !ok {
		return status.InvalidArgumentf("Tried to expand dim index %d for tensor with %d dimensions.", dim, t.Rank())
	}
	if t.Rank() == tensor.MaxRank {
		return status.InvalidArgumentf("too many dimensions: must be < %d, but received %d", tensor.MaxRank, t.Rank()+1)
	}
	ctx.SetOutput(0, t.Reshaped(replaced(t.Shape(), axis, axis, 1)))
	return nil
}

func newSqueeze(c *Construction) (any, error) {
	dims, err := c.Attrs().IntList("squeeze_dims")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		t := ctx.Input(0)
		drop := make([]bool, t.Rank())
		for _, d := range dims {
			axis, ok := wrapAxis(d, t.Rank())
			if !ok {
				return status.InvalidArgumentf("Tried to squeeze dim index %d for tensor with %d dimensions.", d, t.Rank())
			}
			drop[axis] = true
		}
		shape := make(tensor.Shape, 0, t.Rank())
		for i, d := range t.Shape() {
			switch {
			case drop[i] && d != 1:
				return status.InvalidArgumentf("Can not squeeze dim[%d], expected a dimension of 1, got %d", i, d)
			case drop[i] || len(dims) == 0 && d == 1:
			default:
				shape = append(shape, d)
			}
		}
		ctx.SetOutput(0, t.Reshaped(shape))
		return nil
	}), nil
}

func newEnsureShape(c *Construction) (any, error) {
	want, known, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		if have := ctx.Input(0).Shape(); known && !have.Compatible(want) {
			name := ctx.Node.Name
			if len(ctx.Node.Inputs) > 0 {
				name = ctx.Node.Inputs[0].Node.Name
			}
			return status.InvalidArgumentf("Shape of tensor %s %v is not compatible with expected shape %v.", name, have, want)
		}
		ctx.Pass(0, 0)
		return nil
	}), nil
}

// newBitcast makes the kernel that reads the same bytes as elements of another type: smaller
// ones add a dimension, larger ones take the last one.
func newBitcast(c *Construction) (any, error) {
	from, err := c.Attrs().Type("T")
	if err != nil {
		return nil, err
	}
	to, err := c.Attrs().Type("type")
	if err != nil {
		return nil, err
	}
	in, out := from.Size(), to.Size()
	if in == 0 || out == 0 || in%out != 0 && out%in != 0 {
		return nil, status.InvalidArgumentf("Cannot bitcast from %v to %v", from, to)
	}
	return Func(func(ctx *Context) error {
		t := ctx.Input(0)
		if err := checkType(ctx, 0, from); err != nil {
			return err
		}
		shape := t.Shape().Clone()
		switch r := int64(out / in); {
		case out < in:
			shape = append(shape, int64(in/out))
		case out > in && (len(shape) == 0 || shape[len(shape)-1] != r):
			return status.InvalidArgumentf("Cannot bitcast from %v to %v: shape %v", from, to, t.Shape())
		case out > in:
			shape = shape[:len(shape)-1]
		}
		ctx.SetOutput(0, t.Bitcast(to, shape))
		return nil
	}), nil
}

func invertPermutation(ctx *Context) error {
	t := ctx.Input(0)
	if t.Rank() != 1 {
		return status.InvalidArgumentf("invert_permutation expects a 1D vector.")
	}
	p, err := readIndices(t)
	if err != nil {
		return err
	}
	defer p.free()
	n := len(p.v)
	inverse := make([]int64, n)
	for i := range inverse {
		inverse[i] = -1
	}
	for i, d := range p.v {
		if d < 0 || d >= int64(n) {
			return status.InvalidArgumentf("%d is not between 0 and %d", d, n)
		}
		if inverse[d] >= 0 {
			return status.InvalidArgumentf("%d is duplicated in the input.", d)
		}
		inverse[d] = int64(i)
	}
	return outputInts(ctx, 0, t.DType(), inverse)
}

func broadcastArgs(ctx *Context) error {
	a, err := vectorInts(ctx, 0, "In[0]")
	if err != nil {
		return err
	}
	b, err := vectorInts(ctx, 1, "In[1]")
	if err != nil {
		return err
	}
	out, ok := broadcastShape(a, b)
	if !ok {
		return status.InvalidArgumentf("Incompatible shapes: %v vs. %v", tensor.Shape(a), tensor.Shape(b))
	}
	return outputInts(ctx, 0, ctx.Input(0).DType(), out)
}

// broadcastGradientArgs yields, for two shapes that are broadcast to each other, the axes over
// which the gradient of each is summed: those in which it is stretched.
func broadcastGradientArgs(ctx *Context) error {
	a, err := vectorInts(ctx, 0, "In[0]")
	if err != nil {
		return err
	}
	b, err := vectorInts(ctx, 1, "In[1]")
	if err != nil {
		return err
	}
	if _, ok := broadcastShape(a, b); !ok {
		return status.InvalidArgumentf("Incompatible shapes: %v vs. %v", tensor.Shape(a), tensor.Shape(b))
	}
	reduceA, reduceB := gradientAxes(a, b)
	dtype := ctx.Input(0).DType()
	if err := outputInts(ctx, 0, dtype, reduceA); err != nil {
		return err
	}
	return outputInts(ctx, 1, dtype, reduceB)
}

// gradientAxes follows TensorFlow's BCast: equal shapes need no sums at all; else an axis of size 1
// is summed over even where it is 1 in both.
func gradientAxes(a, b []int64) (reduceA, reduceB []int64) {
	if tensor.Shape(a).Equal(b) {
		return nil, nil
	}
	n := max(len(a), len(b))
	ones := func(s []int64) (axes []int64) {
		lead := n - len(s)
		for i := range n {
			if i < lead || s[i-lead] == 1 {
				axes = append(axes, int64(i))
			}
		}
		return axes
	}
	return ones(a), ones(b)
}
