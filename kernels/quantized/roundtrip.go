package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// roundTripKernel is QuantizeAndDequantize and its later versions, which quantize floats and convert them back.
type roundTripKernel[T element.Floating] struct {
	version        int
	signed, narrow bool
	halfUp         bool
	axis           int64
	bits           int64
	given          bool // whether the range is given, rather than taken from the input
	min, max       T    // the given range, in the first version
	most           T    // the greatest number of T
}

// roundTripRows returns the rows of a version for one element type.
func roundTripRows[T element.Floating](version int, most T) []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		k := &roundTripKernel[T]{version: version, axis: -1, most: most}
		a := c.Attrs().Reader()
		k.signed, k.given = a.Bool("signed_input"), a.Bool("range_given")
		if version > 1 {
			k.axis, k.narrow = a.Int("axis"), a.Bool("narrow_range")
		}
		if version != 3 {
			k.bits = a.Int("num_bits")
		}
		if err := a.Err(); err != nil {
			return nil, err
		}
		if version != 3 {
			if err := k.checkBits(k.bits, "signed_input_"); err != nil {
				return nil, err
			}
		}
		switch version {
		case 1:
			return k, k.readRange(c)
		case 2, 4:
			return k, k.readRounding(c)
		}
		return k, nil
	})
}

func (k *roundTripKernel[T]) checkBits(bits int64, name string) error {
	most := int64(62)
	if k.signed {
		most--
	}
	if bits <= 0 || bits > most {
		return status.InvalidArgumentf("num_bits is out of range: %d with %s %d", bits, name, element.OneIf(k.signed))
	}
	return nil
}

// readRange reads the range of the first version.
func (k *roundTripKernel[T]) readRange(c *kernels.Construction) error {
	low, err1 := c.Attrs().Float("input_min")
	high, err2 := c.Attrs().Float("input_max")
	k.min, k.max = T(low), T(high)
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	if k.given && !(low <= high) {
		return status.InvalidArgumentf("Invalid range: input_min %v > input_max %v", low, high)
	}
	return nil
}

func (k *roundTripKernel[T]) readRounding(c *kernels.Construction) error {
	mode, err := c.Attrs().Str("round_mode")
	if err != nil {
		return err
	}
	if mode != "HALF_UP" && mode != "HALF_TO_EVEN" {
		return status.InvalidArgumentf("Round mode string must be 'HALF_UP' or 'HALF_TO_EVEN', is '%s'", mode)
	}
	k.halfUp = mode == "HALF_UP"
	return nil
}

func (k *roundTripKernel[T]) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	for i := range min(3, len(ctx.Inputs)) {
		if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
			return err
		}
	}
	if err := k.checkAxis(in); err != nil {
		return err
	}
	before, slices, after := axisOf(in.Shape(), int(k.axis))
	bits := k.bits
	if k.version == 3 {
		t := ctx.Input(3)
		if err := args.CheckType(ctx, 3, tensor.Int32); err != nil {
			return err
		}
		if t.Rank() != 0 {
			return status.InvalidArgumentf("Invalid shape. The `num_bits` tensor should be a scalar. Got dimensions: %d", t.Rank())
		}
		bits = int64(tensor.Of[int32](t)[0])
		if err := k.checkBits(bits, "`signed_input_`"); err != nil {
			return err
		}
	}
	lows, highs := []T{k.min}, []T{k.max}
	if k.given && k.version > 1 {
		if err := k.checkRange(ctx, slices); err != nil {
			return err
		}
		lows, highs = tensor.Of[T](ctx.Input(1)), tensor.Of[T](ctx.Input(2))
	}
	out, err := ctx.Allocate(0, in.DType(), in.Shape())
	if err != nil {
		return err
	}
	src, dst := tensor.Of[T](in), tensor.Of[T](out)
	ctx.Parallel(slices, max(1, element.CheapGrain/max(1, before*after)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			each := func(body func(dst, src []T)) {
				for b := range before {
					at := (b*slices + i) * after
					// The error is that of the step, whose outputs nobody reads.
					_ = ctx.Each(after, roundTime, func(lo, hi int) error {
						body(dst[at+lo:at+hi], src[at+lo:at+hi])
						return nil
					})
				}
			}
			var low, high T
			if k.given {
				low, high = lows[i], highs[i]
			} else {
				low, high = T(math.Inf(1)), T(math.Inf(-1))
				each(func(_, src []T) {
					for _, v := range src {
						low, high = min(low, v), max(high, v)
					}
				})
			}
			each(k.conversion(bits, low, high))
		}
	})
	return nil
}

// roundTime is the time in nanoseconds to convert a number back and forth.
const roundTime = 4

func (k *roundTripKernel[T]) checkAxis(in *tensor.Tensor) error {
	rank := int64(in.Rank())
	switch {
	case k.version == 1:
	case k.version == 3 && (k.axis < -rank || k.axis >= rank || k.axis < -1):
		return status.InvalidArgumentf("Axis requested is larger than input dimensions. Axis: %d Input Dimensions: %d", k.axis, rank)
	case k.axis < -1:
		return status.InvalidArgumentf("Axis must be at least -1. Found %d", k.axis)
	case k.axis >= rank:
		return status.InvalidArgumentf("Shape must be at least rank %d but is rank %d", k.axis+1, rank)
	}
	return nil
}

// checkRange checks the inputs that hold the range. As in TensorFlow, versions 2 and 4 do not accept a range for each slice.
func (k *roundTripKernel[T]) checkRange(ctx *kernels.Context, slices int) error {
	for i, name := range []string{"input_min", "input_max"} {
		t := ctx.Input(1 + i)
		switch {
		case k.version != 3 && t.Rank() != 0, k.axis == -1 && t.Len() != 1:
			return status.InvalidArgumentf("%s must be a scalar.", name)
		case k.axis == -1:
		case t.Rank() != 1:
			return status.InvalidArgumentf("Shape must be rank 1 for %s_tensor when the axis is specified", name)
		case t.Len() != slices:
			return status.InvalidArgumentf("%s_tensor has incorrect size, was %d expected %d to match dim %d of the input %v", name, t.Len(), slices, k.axis, t.Shape())
		}
	}
	if k.axis == -1 {
		if low, high := tensor.Of[T](ctx.Input(1))[0], tensor.Of[T](ctx.Input(2))[0]; !(low <= high) {
			return status.InvalidArgumentf("Invalid range: input_min %v > input_max %v", low, high)
		}
	}
	return nil
}

// conversion returns a function that converts numbers of a range to integers of the given number of bits and back.
func (k *roundTripKernel[T]) conversion(bits int64, low, high T) func(dst, src []T) {
	least, greatest := T(0), T(int64(1)<<bits-1)
	if k.signed {
		half := int64(1) << (bits - 1)
		least, greatest = T(-half), T(half-1)
		if k.narrow {
			least = T(1 - half)
		}
	}
	var scale, inverse T
	byLow, byHigh := sideScale(least, low, k.most), sideScale(greatest, high, k.most)
	if byLow < byHigh {
		scale, inverse = byLow, low/least
		high = greatest * inverse
	} else {
		scale, inverse = byHigh, high/greatest
		low = least * inverse
	}
	nearest := func(v T) T { return T(math.RoundToEven(float64(v))) }
	if k.halfUp {
		nearest = func(v T) T { return T(math.Floor(float64(v + 0.5))) }
	}
	return func(dst, src []T) {
		for i, v := range src {
			if k.given {
				v = clamped(v, low, high)
			}
			dst[i] = nearest(v*scale) * inverse
		}
	}
}

// roundTripGrad is QuantizeAndDequantizeV4Grad. It passes on the gradient where the input lies in the range.
type roundTripGrad[T element.Floating] struct{ axis int64 }

func roundTripGradRows[T element.Floating]() []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		axis, err := c.Attrs().Int("axis")
		return &roundTripGrad[T]{axis}, err
	})
}

func (k *roundTripGrad[T]) Compute(ctx *kernels.Context) error {
	for i := range 4 {
		if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
			return err
		}
	}
	grad, in := ctx.Input(0), ctx.Input(1)
	if k.axis < -1 {
		return status.InvalidArgumentf("Axis must be at least -1. Found %d", k.axis)
	}
	if k.axis >= int64(in.Rank()) {
		return status.InvalidArgumentf("Axis should be -1 or 0 or a positive value less than %dbut given axis value was %d", in.Rank(), k.axis)
	}
	if !grad.Shape().Equal(in.Shape()) {
		return status.InvalidArgumentf("gradient and input must be the same size")
	}
	before, slices, after := axisOf(in.Shape(), int(k.axis))
	for i, name := range []string{"min", "max"} {
		t := ctx.Input(2 + i)
		switch {
		case t.Rank() > 1:
			return status.InvalidArgumentf("Input %s tensor must have dimension 0 or 1. Received %d.", name, t.Rank())
		case k.axis == -1 && t.Rank() != 0:
			return status.InvalidArgumentf("input_%s must be a scalar if axis is unspecified", name)
		case k.axis == -1:
		case t.Rank() != 1:
			return status.InvalidArgumentf("Shape must be rank 1 for input_%s_tensor when the axis is specified", name)
		case t.Len() != slices:
			return status.InvalidArgumentf("%s has incorrect size, expected %d was %d", name, slices, t.Len())
		}
	}
	out, err := ctx.Allocate(0, in.DType(), in.Shape())
	if err != nil {
		return err
	}
	for o := 1; o < 3; o++ {
		t, err := ctx.Allocate(o, in.DType(), ctx.Input(2).Shape())
		if err != nil {
			return err
		}
		if err := kernels.Clear(ctx, tensor.Of[T](t)); err != nil {
			return err
		}
	}
	dst, g, src := tensor.Of[T](out), tensor.Of[T](grad), tensor.Of[T](in)
	lows, highs := tensor.Of[T](ctx.Input(2)), tensor.Of[T](ctx.Input(3))
	ctx.Parallel(before*slices, max(1, element.CheapGrain/max(1, after)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			low, high := lows[r%slices], highs[r%slices]
			for i := r * after; i < (r+1)*after; i++ {
				in := T(0)
				if src[i] >= low && src[i] <= high {
					in = 1
				}
				dst[i] = g[i] * in
			}
		}
	})
	return nil
}
