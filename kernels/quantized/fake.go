package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

// fake holds the attributes of the ops that round floats as quantization would: FakeQuantWithMinMaxArgs, whose range is in attributes,
// FakeQuantWithMinMaxVars, whose range is in inputs, and FakeQuantWithMinMaxVarsPerChannel, which has a range for each channel.
type fake struct {
	least, greatest float32 // the quantized numbers
	attrs           bool
	span
	perChannel bool
}

// fakeRows returns the rows of an op whose method is run.
func fakeRows(attrs, perChannel bool, run func(f *fake, ctx *kernels.Context) error) []kernels.Def {
	return []kernels.Def{{New: func(c *kernels.Construction) (any, error) {
		f := &fake{attrs: attrs, perChannel: perChannel}
		if attrs {
			a := c.Attrs().Reader()
			low, high := a.Float("min"), a.Float("max")
			if err := a.Err(); err != nil {
				return nil, err
			}
			if !(low < high) {
				return nil, status.InvalidArgumentf("min has to be smaller than max, was: %v >= %v", low, high)
			}
			f.span = span{low, high}
		}
		a := c.Attrs().Reader()
		bits, narrow := a.Int("num_bits"), a.Bool("narrow_range")
		if err := a.Err(); err != nil {
			return nil, err
		}
		if bits < 2 || bits > 16 {
			return nil, status.InvalidArgumentf("num_bits must be between 2 and 16, inclusive")
		}
		f.least, f.greatest = float32(element.OneIf(narrow)), float32(int(1)<<bits-1)
		return kernels.Func(func(ctx *kernels.Context) error { return run(f, ctx) }), nil
	}}}
}

// nudged is a range in which a quantized number represents 0 exactly.
type nudged struct {
	span
	scale, inverse float32
}

func (f *fake) nudge(s span) nudged {
	n := nudged{scale: (s.max - s.min) / (f.greatest - f.least), inverse: (f.greatest - f.least) / (s.max - s.min)}
	zero := f.least - s.min/n.scale
	switch {
	case zero < f.least:
		zero = f.least
	case zero > f.greatest:
		zero = f.greatest
	case zero != zero:
		zero = 0 // for an infinite range, as in TensorFlow
	default:
		zero = round(zero)
	}
	n.min, n.max = (f.least-zero)*n.scale, (f.greatest-zero)*n.scale
	return n
}

// read checks the inputs from i onward: the input and the ranges. For i = 1, input 0 is the gradient.
func (f *fake) read(ctx *kernels.Context, i int) (in *tensor.Tensor, lows, highs []float32, err error) {
	for k := range ctx.Inputs {
		if err := args.CheckType(ctx, k, tensor.Float32); err != nil {
			return nil, nil, nil, err
		}
	}
	in = ctx.Input(i)
	if i == 1 && !ctx.Input(0).Shape().Equal(in.Shape()) {
		if f.attrs {
			return nil, nil, nil, elementwise.DifferentShapes(ctx, 1, ctx.Input(0).Shape(), in.Shape())
		}
		return nil, nil, nil, status.InvalidArgumentf("gradient and input must be the same size")
	}
	if f.attrs {
		return in, []float32{f.min}, []float32{f.max}, nil
	}
	channels, rank := 1, 0
	if f.perChannel {
		if rank = 1; in.Rank() == 0 {
			return nil, nil, nil, status.InvalidArgumentf("inputs must have at least one dimension")
		}
		channels = in.Dim(in.Rank() - 1)
	}
	for k, name := range []string{"min", "max"} {
		t := ctx.Input(i + 1 + k)
		if t.Rank() != rank {
			return nil, nil, nil, status.InvalidArgumentf("`%s` must be rank %d but is rank %d", name, rank, t.Rank())
		}
		if t.Len() != channels {
			return nil, nil, nil, status.InvalidArgumentf("%s has incorrect size, expected %d was %d", name, channels, t.Len())
		}
	}
	return in, tensor.Of[float32](ctx.Input(i + 1)), tensor.Of[float32](ctx.Input(i + 2)), nil
}

// forward rounds the input. As in TensorFlow, a single range in inputs divides by the scale, while other ranges multiply by its inverse.
func (f *fake) forward(ctx *kernels.Context) error {
	in, lows, highs, err := f.read(ctx, 0)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Float32, in.Shape())
	if err != nil {
		return err
	}
	src, dst, channels := tensor.Of[float32](in), tensor.Of[float32](out), len(lows)
	for c := range channels {
		s := span{lows[c], highs[c]}
		if !f.attrs && s == (span{}) {
			for i := c; i < len(dst); i += channels {
				dst[i] = 0
			}
			continue
		}
		n := f.nudge(s)
		zero := floor(float32(-n.min*n.inverse) + 0.5)
		for i := c; i < len(dst); i += channels {
			shifted := n.clamp(src[i]) - n.min
			if f.attrs || f.perChannel {
				shifted *= n.inverse
			} else {
				shifted /= n.scale
			}
			dst[i] = floor(shifted-zero+0.5) * n.scale
		}
	}
	return nil
}

func floor(v float32) float32 { return float32(math.Floor(float64(v))) }

// gradTime is the time in nanoseconds of the gradient of a number, which is far from the next one of its channel.
const gradTime = 8

// gradPart is the number of gradients between two looks for the end of the step.
const gradPart = 1024

// backward passes on the gradient of elements inside the range. The gradients of elements outside go to the end of the range that they
// exceed.
func (f *fake) backward(ctx *kernels.Context) error {
	in, lows, highs, err := f.read(ctx, 1)
	if err != nil {
		return err
	}
	outs := []tensor.Shape{in.Shape()}
	if !f.attrs {
		outs = append(outs, ctx.Input(2).Shape(), ctx.Input(2).Shape())
	}
	var made [3][]float32
	for o, shape := range outs {
		t, err := ctx.Allocate(o, tensor.Float32, shape)
		if err != nil {
			return err
		}
		made[o] = tensor.Of[float32](t)
	}
	grad, src, channels := tensor.Of[float32](ctx.Input(0)), tensor.Of[float32](in), len(lows)
	end := ctx.Lookout()
	for c := range channels {
		s := span{lows[c], highs[c]}
		n := f.nudge(s)
		// A range of zeros passes on all gradients.
		all := !f.attrs && s == (span{})
		var low, high float32
		for i, part := c, 0; i < len(src); i += channels {
			if part--; part < 0 {
				part = gradPart
				if err := end.After(min(gradPart, len(src)/channels) * gradTime); err != nil {
					return err
				}
			}
			v, g := src[i], grad[i]
			if all {
				made[0][i] = g
				continue
			}
			// If the range is reversed, an element can be both below and above it. An infinite gradient times 0 is NaN.
			made[0][i] = g * float32(element.OneIf(v >= n.min && v <= n.max))
			low += g * float32(element.OneIf(v < n.min))
			high += g * float32(element.OneIf(v > n.max))
		}
		if !f.attrs {
			made[1][c], made[2][c] = low, high
		}
	}
	return nil
}
