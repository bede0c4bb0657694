package array

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

func newShape(c *kernels.Construction) (any, error) {
	write, err := args.ShapeWriter(c, "out_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		for i := range ctx.Inputs {
			if err := write(ctx, i, ctx.Input(i).Shape()); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

func newSize(c *kernels.Construction) (any, error) {
	dtype, err := args.IntAttr(c, "out_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
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

func rank(ctx *kernels.Context) error {
	ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(ctx.Input(0).Rank())))
	return nil
}

// reshape returns input 0 with the sizes in input 1. One of them may be -1, for the remainder.
func reshape(ctx *kernels.Context) error {
	t, sizes := ctx.Input(0), ctx.Input(1)
	// TensorFlow also accepts a scalar as a vector of one size.
	if sizes.Rank() > 1 {
		return status.InvalidArgumentf("sizes input must be 1-D, not %v", sizes.Shape())
	}
	if sizes.Len() >= tensor.MaxRank {
		return status.InvalidArgumentf("too many dimensions: must be < %d, but received %d", tensor.MaxRank, sizes.Len())
	}
	list, err := args.ReadIndices(sizes)
	if err != nil {
		return status.InvalidArgumentf("desired shape must be a DT_INT32 or DT_INT64 vector, not a %v", sizes.DType())
	}
	defer list.Free()
	var room [8]int64
	shape := tensor.Shape(append(room[:0], list.V...))
	if err := inferShape(shape, t.Shape()); err != nil {
		return err
	}
	ctx.SetOutput(0, t.Reshaped(shape))
	return nil
}

// quantizedReshape is Reshape for quantized numbers. It forwards their range.
func quantizedReshape(ctx *kernels.Context) error {
	for i, name := range []string{"input_min", "input_max"} {
		if err := args.CheckType(ctx, 2+i, tensor.Float32); err != nil {
			return err
		}
		if t := ctx.Input(2 + i); t.Len() != 1 || t.Rank() > 1 {
			return status.InvalidArgumentf("%s must be a scalar or a vector of 1 element", name)
		}
	}
	if err := reshape(ctx); err != nil {
		return err
	}
	ctx.SetOutput(1, ctx.Input(2).Reshaped(nil))
	ctx.SetOutput(2, ctx.Input(3).Reshaped(nil))
	return nil
}

// inferShape replaces a size of -1 by the one that the elements of a tensor of shape in require. As in TensorFlow, sizes of zero are
// excluded from the division on both sides.
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
			if product, ok = shapes.MulSize(product, d); !ok {
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

func expandDims(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if ctx.Input(1).Len() != 1 {
		return status.InvalidArgumentf("'dim' must be a tensor with a single value")
	}
	dim, err := args.ScalarInt(ctx, 1, "dim")
	if err != nil {
		return err
	}
	axis, ok := shapes.WrapAxis(dim, t.Rank()+1)
	if !ok {
		return status.InvalidArgumentf("Tried to expand dim index %d for tensor with %d dimensions.", dim, t.Rank())
	}
	if t.Rank() == tensor.MaxRank {
		return status.InvalidArgumentf("too many dimensions: must be < %d, but received %d", tensor.MaxRank, t.Rank()+1)
	}
	ctx.SetOutput(0, t.Reshaped(shapes.Replaced(t.Shape(), axis, axis, 1)))
	return nil
}

func newSqueeze(c *kernels.Construction) (any, error) {
	dims, err := c.Attrs().IntList("squeeze_dims")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		drop := make([]bool, t.Rank())
		for _, d := range dims {
			axis, ok := shapes.WrapAxis(d, t.Rank())
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

func newEnsureShape(c *kernels.Construction) (any, error) {
	want, known, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
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

// newBitcast returns the kernel that reinterprets the bytes as elements of another type. Smaller elements add a dimension, larger ones
// remove the last one.
func newBitcast(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	from, to := a.Type("T"), a.Type("type")
	if err := a.Err(); err != nil {
		return nil, err
	}
	in, out := from.Size(), to.Size()
	if in == 0 || out == 0 || in%out != 0 && out%in != 0 {
		return nil, status.InvalidArgumentf("Cannot bitcast from %v to %v", from, to)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		if err := args.CheckType(ctx, 0, from); err != nil {
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

func invertPermutation(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if t.Rank() != 1 {
		return status.InvalidArgumentf("invert_permutation expects a 1D vector.")
	}
	p, err := args.ReadIndices(t)
	if err != nil {
		return err
	}
	defer p.Free()
	n := len(p.V)
	inverse := make([]int64, n)
	for i := range inverse {
		inverse[i] = -1
	}
	for i, d := range p.V {
		if d < 0 || d >= int64(n) {
			return status.InvalidArgumentf("%d is not between 0 and %d", d, n)
		}
		if inverse[d] >= 0 {
			return status.InvalidArgumentf("%d is duplicated in the input.", d)
		}
		inverse[d] = int64(i)
	}
	return args.OutputInts(ctx, 0, t.DType(), inverse)
}

func broadcastArgs(ctx *kernels.Context) error {
	a, err := args.VectorInts(ctx, 0, "In[0]")
	if err != nil {
		return err
	}
	b, err := args.VectorInts(ctx, 1, "In[1]")
	if err != nil {
		return err
	}
	out, ok := shapes.BroadcastShape(a, b)
	if !ok {
		return status.InvalidArgumentf("Incompatible shapes: %v vs. %v", tensor.Shape(a), tensor.Shape(b))
	}
	return args.OutputInts(ctx, 0, ctx.Input(0).DType(), out)
}

// broadcastGradientArgs returns, for two shapes that are broadcast to each other, the axes over which to sum the gradient of each: those in
// which it is broadcast.
func broadcastGradientArgs(ctx *kernels.Context) error {
	a, err := args.VectorInts(ctx, 0, "In[0]")
	if err != nil {
		return err
	}
	b, err := args.VectorInts(ctx, 1, "In[1]")
	if err != nil {
		return err
	}
	if _, ok := shapes.BroadcastShape(a, b); !ok {
		return status.InvalidArgumentf("Incompatible shapes: %v vs. %v", tensor.Shape(a), tensor.Shape(b))
	}
	reduceA, reduceB := gradientAxes(a, b)
	dtype := ctx.Input(0).DType()
	if err := args.OutputInts(ctx, 0, dtype, reduceA); err != nil {
		return err
	}
	return args.OutputInts(ctx, 1, dtype, reduceB)
}

// gradientAxes follows TensorFlow's BCast. Equal shapes need no sums. Otherwise an axis of size 1 is summed over even if it is 1 in both
// shapes.
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
