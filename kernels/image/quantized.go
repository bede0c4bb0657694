package image

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// resizeQuantized returns the constructor of QuantizedResizeBilinear. Fractions between pixels have the given number of bits, and mix
// computes with them.
func resizeQuantized[T pixel](dtype tensor.DType, bits int, mix func(v [4]T, right, down part) T) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		centres, err := newCentres(c)
		return kernels.Func(func(ctx *kernels.Context) error {
			if err := args.CheckType(ctx, 0, dtype); err != nil {
				return err
			}
			for i, name := range []string{"min", "max"} {
				if t := ctx.Input(2 + i); t.Rank() != 0 || t.DType() != tensor.Float32 {
					return status.InvalidArgumentf("%s must be a scalar", name)
				}
			}
			from, to, err := resized(ctx, centres.corners())
			if err != nil {
				return err
			}
			out, err := to.allocate(ctx, dtype)
			if err != nil {
				return err
			}
			ctx.SetOutput(1, ctx.Input(2).Retain())
			ctx.SetOutput(2, ctx.Input(3).Retain())
			if out.Len() == 0 {
				return nil
			}
			return interpolateQuantized(ctx, centres, element.Cells[T](out.Data()), element.Cells[T](ctx.Input(0).Data()), from, to, bits, mix)
		}), err
	}
}

// corners returns the settings for checking the attributes: QuantizedResizeBilinear accepts both at once.
func (c centres) corners() centres { return centres{align: c.align} }

// part is a fraction of the distance between two pixels, as a float and in fixed point.
type part struct {
	float float32
	fixed int64
}

func interpolateQuantized[T pixel](ctx *kernels.Context, c centres, dst, src []T, from, to extent, bits int, mix func(v [4]T, right, down part) T) error {
	if from == to {
		copy(dst, src)
		return nil
	}
	meter := ctx.Meter()
	defer meter.Done()
	ys, err1 := c.neighbours(&meter, from.height, to.height)
	xs, err2 := c.neighbours(&meter, from.width, to.width)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	fixed := func(v float32) part { return part{v, int64(v * float32(int(1)<<bits))} }
	in, out := from.width*from.channels, to.width*to.channels
	ctx.Parallel(to.batch*to.height, max(1, element.CostlyGrain/out), func(lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			image, y := r/to.height*from.height, ys[r%to.height]
			top, bottom := src[(image+int(y.lower))*in:][:in], src[(image+int(y.upper))*in:][:in]
			down := fixed(y.part)
			for i, x := range xs {
				left, right, across := int(x.lower)*to.channels, int(x.upper)*to.channels, fixed(x.part)
				for k := range to.channels {
					dst[r*out+i*to.channels+k] = mix([4]T{top[left+k], top[right+k], bottom[left+k], bottom[right+k]}, across, down)
				}
			}
		}
	})
	return ctx.Ended()
}

// mixFloats mixes like ResizeBilinear.
func mixFloats(v [4]float32, right, down part) float32 {
	return mix(mix(v[0], v[1], right.float), mix(v[2], v[3], right.float), down.float)
}

// mixFixed returns the function that mixes integers, with the given number of fractional bits. They are converted through floats, as
// TensorFlow's quantized types are.
func mixFixed[T uint8 | int32](bits int) func(v [4]T, right, down part) T {
	one := int64(1) << bits
	return func(v [4]T, right, down part) T {
		var n [4]int64
		for i := range v {
			n[i] = int64(float32(v[i]))
		}
		top, bottom := n[0]*one+(n[1]-n[0])*right.fixed, n[2]*one+(n[3]-n[2])*right.fixed
		return T((top + (bottom-top)/one*down.fixed + one/2) / one)
	}
}
