package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// paddings reads input 1: how much goes before and after each dimension of input 0, and the
// shape that comes of it.
func paddings(ctx *Context) (before, after []int64, shape tensor.Shape, err error) {
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
		if shape[i], ok = addSize(d, b, a); !ok {
			return nil, nil, nil, status.InvalidArgumentf("Dimension %d of size %d cannot be padded by %d and %d: the size does not fit 63 bits", i, d, b, a)
		}
		before, after = append(before, b), append(after, a)
	}
	return before, after, shape, nil
}

// pad surrounds input 0 with the scalar input 2, or with zeros where there is none.
func pad(ctx *Context) error {
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
	if len(ctx.Inputs) > 2 {
		fill(ctx, out, ctx.Input(2))
	} else {
		zero(ctx, out)
	}
	if t.Len() == 0 {
		return nil
	}
	dst, offset := stridesOf(shape), 0
	for i, b := range before {
		offset += int(b) * dst[i]
	}
	move(ctx, out, t, newNest(ints(t.Shape()), dst, stridesOf(t.Shape()), offset, 0))
	return nil
}

// mirrorMode reads the attribute that tells whether the border itself is repeated. offset is the
// distance of the first mirrored position from the border.
func mirrorMode(c *Construction) (offset int, err error) {
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

func newMirrorPad(c *Construction) (any, error) {
	offset, err := mirrorMode(c)
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
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

// mirror fills the middle and then, one dimension after the other, what lies around it, of which
// the earlier dimensions are complete already.
func mirror(ctx *Context, out, t *tensor.Tensor, before []int64, offset int) {
	strides, at := stridesOf(out.Shape()), 0
	for i, b := range before {
		at += int(b) * strides[i]
	}
	move(ctx, out, t, newNest(ints(t.Shape()), strides, stridesOf(t.Shape()), at, 0))
	done := ints(t.Shape())
	for i, b := range before {
		size, pre := t.Dim(i), int(b)
		post := out.Dim(i) - size - pre
		flipped := append([]int(nil), strides...)
		flipped[i] = -flipped[i]
		if pre > 0 {
			// Position pre-1 shows pre+offset, pre-2 the next one, and so on.
			done[i] = pre
			move(ctx, out, out, newNest(done, flipped, strides, at-strides[i], at+offset*strides[i]))
		}
		if post > 0 {
			end := at + size*strides[i]
			done[i] = post
			move(ctx, out, out, newNest(done, strides, flipped, end, end-(1+offset)*strides[i]))
		}
		done[i] = out.Dim(i)
		at -= pre * strides[i]
	}
}

// newMirrorPadGrad makes the kernel of the gradient of MirrorPad: what was shown more than once
// adds up where it came from.
func newMirrorPadGrad(c *Construction) (any, error) {
	offset, err := mirrorMode(c)
	if err != nil {
		return nil, err
	}
	dtype, err := c.Attrs().Type("T")
	if err != nil {
		return nil, err
	}
	update := updaters[updateAdd][dtype]
	return Func(func(ctx *Context) error { return mirrorPadGrad(ctx, dtype, offset, update) }), nil
}

func mirrorPadGrad(ctx *Context, dtype tensor.DType, offset int, update updater) error {
	if err := checkType(ctx, 0, dtype); err != nil {
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
	clear(out.Data())
	// For each position of each dimension, where its gradient goes.
	origin := make([][]int, t.Rank())
	strides := stridesOf(shape)
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
