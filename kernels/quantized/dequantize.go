package quantized

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// Modes of Dequantize and QuantizeV2.
const (
	minCombined = "MIN_COMBINED"
	minFirst    = "MIN_FIRST"
	scaled      = "SCALED"
)

// dequantizeKernel is Dequantize, which converts quantized numbers to floats.
type dequantizeKernel[T number] struct {
	mode   string
	narrow bool
	axis   int64
}

// dequantizeRows returns the rows for one type of numbers.
func dequantizeRows[T number](dtype tensor.DType) []kernels.Def {
	row := func(to tensor.DType, construct func(*kernels.Construction) (any, error)) kernels.Def {
		return kernels.Def{Types: map[string][]tensor.DType{"T": {dtype}, "dtype": {to}}, New: construct}
	}
	half := func(c *kernels.Construction) (any, error) {
		mode, err := c.Attrs().Str("mode")
		if err == nil && mode != minCombined {
			return nil, status.InvalidArgumentf("When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '%s'", mode)
		}
		return halves.Constructor(tensor.BFloat16, newDequantize[T])(c)
	}
	return []kernels.Def{row(tensor.Float32, newDequantize[T]), row(tensor.BFloat16, half)}
}

func newDequantize[T number](c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	mode, narrow, axis := a.Str("mode"), a.Bool("narrow_range"), a.Int("axis")
	if err := a.Err(); err != nil {
		return nil, err
	}
	if mode != minCombined && mode != minFirst && mode != scaled {
		return nil, status.InvalidArgumentf("Mode string must be 'MIN_COMBINED', 'MIN_FIRST', or 'SCALED', is '%s'", mode)
	}
	return &dequantizeKernel[T]{mode, narrow, max(axis, -1)}, nil
}

func (k *dequantizeKernel[T]) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if in.DType().Size() != bitsOf[T]()/8 {
		return status.InvalidArgumentf("Input 0 must be quantized, not %v", in.DType())
	}
	if k.axis >= int64(in.Rank()) {
		return status.InvalidArgumentf("Axis must be less than input dimension(%d), got %d", in.Rank(), k.axis)
	}
	before, slices, after := axisOf(in.Shape(), int(k.axis))
	for i, name := range []string{"input_min_tensor", "input_max_tensor"} {
		if err := args.CheckType(ctx, 1+i, tensor.Float32); err != nil {
			return err
		}
		if n := ctx.Input(1 + i).Len(); n != slices {
			return status.InvalidArgumentf("%s must have as many elements as input on the dequantization axis (%d), got %d, expected %d", name, k.axis, n, slices)
		}
	}
	if slices != 1 && k.mode == minFirst {
		return status.Unimplementedf("MIN_FIRST mode is not implemented for Dequantize with axis != -1.")
	}
	out, err := ctx.Allocate(0, tensor.Float32, in.Shape())
	if err != nil {
		return err
	}
	src, dst := tensor.Of[T](in), tensor.Of[float32](out)
	lows, highs := tensor.Of[float32](ctx.Input(1)), tensor.Of[float32](ctx.Input(2))
	ctx.Parallel(before*slices, max(1, element.CheapGrain/max(1, after)), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			at := r * after
			k.slice(dst[at:at+after], src[at:at+after], span{lows[r%slices], highs[r%slices]}, slices == 1)
		}
	})
	return nil
}

// slice converts numbers that share a range. If all numbers share it, TensorFlow's mode SCALED converts them to integers once more after it
// has converted them to floats. The greatest 32-bit numbers then overflow.
func (k *dequantizeKernel[T]) slice(dst []float32, src []T, s span, all bool) {
	lowest, highest := limits[T]()
	low, high := float32(lowest), float32(highest)
	switch k.mode {
	case minCombined:
		half := float32(0)
		if lowest < 0 {
			half = (high - low + 1) / 2
		}
		scale := (s.max - s.min) / (high - low)
		for i, v := range src {
			dst[i] = float32((float32(v)+half)*scale) + s.min
		}
	case minFirst:
		f := firstOf[T](s)
		for i, v := range src {
			dst[i] = f.float(float32(v), low)
		}
	case scaled:
		scale := s.max / high
		if lowest < 0 {
			if k.narrow {
				low = float32(lowest + 1)
			}
			if side := s.min / low; !(side < scale) {
				scale = side
			}
		}
		for i, v := range src {
			f := float32(v)
			if all {
				f = float32(element.Trunc32(f))
			}
			dst[i] = f * scale
		}
	}
}
