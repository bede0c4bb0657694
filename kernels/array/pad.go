package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// paddings reads the padding before and after each dimension of input 0 from input 1. It also returns the resulting shape.
func paddings(ctx *kernels.Context) (before, after []int64, shape tensor.Shape, err error) {
	t, p := ctx.Input(0), ctx.Input(1)
	if p.Rank() != 2 || p.Dim(1) != 2 {
		return nil, nil, nil, status.InvalidArgumentf("paddings must be a matrix with 2 columns: %v", p.Shape())
	}
	if p.Dim(0) != t.Rank() {
		return nil, nil, nil, status.InvalidArgumentf("The first dimension of paddings must be the rank of inputs%v %v", p.Shape(), t.Shape())
	}
	pairs, err := ctx.Ints(1)
	if err != nil {
		return nil, nil, nil, err
	}
	shape = make(tensor.Shape, t.Rank())
	for i, d := range t.Shape() {
		b, a := pairs[2*i], pairs[2*i+1]
		if b < 0 || a < 0 {
			return nil, nil, nil, status.InvalidArgumentf("Paddings must be non-negative: %d %d", b, a)
		}
		var ok bool
		if shape[i], ok = shapes.AddSize(d, b, a); !ok {
			return nil, nil, nil, status.InvalidArgumentf("Dimension %d of size %d cannot be padded by %d and %d: the size does not fit 63 bits", i, d, b, a)
		}
		before, after = append(before, b), append(after, a)
	}
	return before, after, shape, nil
}

// pad pads input 0 with the scalar in input 2, or with zeros if there is none.
func pad(ctx *kernels.Context) error {
	t := ctx.Input(0)
	before, _, shape, err := paddings(ctx)
	if err != nil {
		return err
	}
	if len(ctx.Inputs) > 2 {
		if v := ctx.Input(2); v.Rank() != 0 || v.DType() != t.DType() {
			return status.InvalidArgumentf("constant_values must be a scalar. Found: %v", v.Shape())
		}
	}
	if shape.Equal(t.Shape()) {
		ctx.Pass(0, 0)
		return nil
	}
	out, err := ctx.Allocate(0, t.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	var value *tensor.Tensor
	if len(ctx.Inputs) > 2 {
		value = ctx.Input(2)
	}
	switch {
	case t.Len() > 0:
		layout.Pad(ctx, out, t, value, before)
	case value != nil:
		layout.Fill(ctx, out, value)
	default:
		layout.Zero(ctx, out)
	}
	return nil
}

// mirrorMode reads the attribute that says whether the border itself is repeated. offset is the distance of the first mirrored position
// from the border.
func mirrorMode(c *kernels.Construction) (offset int, err error) {
	mode, err := c.Attrs().Str("mode")
	switch {
	case err != nil:
		return 0, err
	case mode == "REFLECT":
		return 1, nil
	case mode == "SYMMETRIC":
		return 0, nil
	}
	return 0, status.InvalidArgumentf("mode must be either REFLECT or SYMMETRIC.")
}

func newMirrorPad(c *kernels.Construction) (any, error) {
	offset, err := mirrorMode(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		before, after, shape, err := paddings(ctx)
		if err != nil {
			return err
		}
		for i := range before {
			if limit := t.Shape()[i] - int64(offset); before[i] > limit || after[i] > limit {
				if offset == 0 {
					return status.InvalidArgumentf("paddings must be no greater than the dimension size: %d, %d greater than %d", before[i], after[i], t.Dim(i))
				}
				return status.InvalidArgumentf("paddings must be less than the dimension size: %d, %d not less than %d", before[i], after[i], t.Dim(i))
			}
		}
		if shape.Equal(t.Shape()) {
			ctx.Pass(0, 0)
			return nil
		}
		out, err := ctx.Allocate(0, t.DType(), shape)
		if err != nil || out.Len() == 0 {
			return err
		}
		mirror(ctx, out, t, before, offset)
		return nil
	}), nil
}

// mirror fills the middle and then the padding of one dimension after another. The padding of a dimension is copied from an output that is
// complete in all earlier dimensions.
func mirror(ctx *kernels.Context, out, t *tensor.Tensor, before []int64, offset int) {
	strides, at := shapes.StridesOf(out.Shape()), 0
	for i, b := range before {
		at += int(b) * strides[i]
	}
	layout.Move(ctx, out, t, layout.NewNest(shapes.Ints(t.Shape()), strides, shapes.StridesOf(t.Shape()), at, 0))
	done := shapes.Ints(t.Shape())
	for i, b := range before {
		size, pre := t.Dim(i), int(b)
		post := out.Dim(i) - size - pre
		flipped := append([]int(nil), strides...)
		flipped[i] = -flipped[i]
		if pre > 0 {
			// Position pre-1 mirrors pre+offset, pre-2 the next one, and so on.
			done[i] = pre
			layout.Move(ctx, out, out, layout.NewNest(done, flipped, strides, at-strides[i], at+offset*strides[i]))
		}
		if post > 0 {
			end := at + size*strides[i]
			done[i] = post
			layout.Move(ctx, out, out, layout.NewNest(done, strides, flipped, end, end-(1+offset)*strides[i]))
		}
		done[i] = out.Dim(i)
		at -= pre * strides[i]
	}
}

// newMirrorPadGrad returns the kernel of the gradient of MirrorPad, which sums the gradients of all copies of an element.
func newMirrorPadGrad(c *kernels.Construction) (any, error) {
	offset, err := mirrorMode(c)
	if err != nil {
		return nil, err
	}
	dtype, err := c.Attrs().Type("T")
	if err != nil {
		return nil, err
	}
	update := update.Updaters[update.Add][dtype]
	return kernels.Func(func(ctx *kernels.Context) error { return mirrorPadGrad(ctx, dtype, offset, update) }), nil
}

func mirrorPadGrad(ctx *kernels.Context, dtype tensor.DType, offset int, update update.Func) error {
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return err
	}
	t := ctx.Input(0)
	before, after, _, err := paddings(ctx)
	if err != nil {
		return err
	}
	shape := make(tensor.Shape, t.Rank())
	for i := range shape {
		shape[i] = t.Shape()[i] - before[i] - after[i]
		if before[i] > t.Shape()[i] || shape[i] <= 0 || before[i] > shape[i]-int64(offset) || after[i] > shape[i]-int64(offset) {
			return status.InvalidArgumentf("Total paddings must be less than the input dimension size: %d, %d not less than %d", before[i], after[i], t.Dim(i))
		}
	}
	out, err := ctx.Allocate(0, t.DType(), shape)
	if err != nil {
		return err
	}
	if !out.OnHost() {
		return mirrorPadGradOn(ctx, out, t, before, offset)
	}
	if err := kernels.Clear(ctx, out.Data()); err != nil {
		return err
	}
	if t.Len() == 0 {
		return nil // other dimensions may have any size
	}
	// For each position of each dimension, the offset that its gradient is added to.
	origin := make([][]int, t.Rank())
	strides := shapes.StridesOf(shape)
	for i := range origin {
		origin[i] = make([]int, t.Dim(i))
		n := int(shape[i])
		for p := range origin[i] {
			q := p - int(before[i])
			if q < 0 {
				q = -q - 1 + offset
			} else if q >= n {
				q = 2*n - 1 - q - offset
			}
			origin[i][p] = q * strides[i]
		}
	}
	size := t.DType().Size()
	src, dst := t.Data(), out.Data()
	at := make([]int, t.Rank())
	for i := range t.Len() {
		o := 0
		for d, p := range at {
			o += origin[d][p]
		}
		to := dst[o*size : (o+1)*size]
		update(to, to, src[i*size:(i+1)*size])
		for d := len(at) - 1; d >= 0; d-- {
			if at[d]++; at[d] < t.Dim(d) {
				break
			}
			at[d] = 0
		}
	}
	return nil
}
