package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// narrowing converts 32-bit numbers to 8-bit numbers of another range.
type narrowing[T number] func(dst []T, src []int32, from, to span)

// narrow8 is the narrowing to qint8, by way of floats.
func narrow8(dst []int8, src []int32, from, to span) {
	throughFloats(dst, src, from, to)
}

// throughFloats converts numbers of one range to those of another in the mode MIN_FIRST, one block at a time.
func throughFloats[A, B number](dst []B, src []A, from, to span) {
	var block [element.BlockLen]float32
	lowest, _ := limits[A]()
	f := firstOf[A](from)
	for len(src) > 0 {
		n := min(len(src), len(block))
		for i, v := range src[:n] {
			block[i] = f.float(float32(v), float32(lowest))
		}
		toFirst(dst[:n], block[:n], to)
		dst, src = dst[n:], src[n:]
	}
}

// narrowU8 is the narrowing to quint8, in fixed point with 16 fractional bits.
func narrowU8(dst []uint8, src []int32, from, to span) {
	const shift = 16
	width, wide := from.max-from.min, to.max-to.min
	reciprocal, factor, least := float32(0), int64(0), int64(0)
	if wide != 0 {
		reciprocal = float32(255 / float64(wide))
		factor = toInt64(255 * (1 << shift) * float64(width) / float64(wide))
		least = toInt64(math.Round((1 << shift) * (float64(to.min) * 255) / float64(wide)))
	}
	middle := float32(float64(from.min+from.max) / 2)
	offset := toInt64(float64(float32(middle*reciprocal) * (1 << shift)))
	for i, v := range src {
		// TensorFlow converts the number to a float before it converts it to 64 bits.
		fixed := (int64(float32(v))*factor)>>32 + (offset - least + 1<<(shift-1))
		dst[i] = uint8(min(max(fixed>>shift, 0), 255))
	}
}

// toInt64 truncates v to an integer. If v does not fit, the result is the least integer, as with the processor's conversion.
func toInt64(v float64) int64 {
	if !(v >= math.MinInt64 && v < math.MaxInt64) {
		return math.MinInt64
	}
	return int64(v)
}

// used returns the range that the numbers actually use, extended to include 0 from below.
func used(src []int32, s span) span {
	least, greatest := int32(math.MaxInt32), int32(math.MinInt32)
	for _, v := range src {
		least, greatest = min(least, v), max(greatest, v)
	}
	return span{smaller(0, dequantize(least, s)), dequantize(greatest, s)}
}

// smaller and larger are C++'s std::min and std::max, which TensorFlow uses to find ranges. They return b only if it is less or greater
// than a, and so return a if either is NaN.
func smaller(a, b float32) float32 {
	if b < a {
		return b
	}
	return a
}

func larger(a, b float32) float32 {
	if b > a {
		return b
	}
	return a
}

// requantized sets the outputs to the converted input and its new range.
func requantized[T number](ctx *kernels.Context, to tensor.DType, from, into span, convert narrowing[T]) error {
	in := ctx.Input(0)
	out, err := ctx.Allocate(0, to, in.Shape())
	if err != nil {
		return err
	}
	src, dst := tensor.Of[int32](in), tensor.Of[T](out)
	ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) { convert(dst[lo:hi], src[lo:hi], from, into) })
	return into.put(ctx, 1)
}

var inputEnds = named("input_min", "input_max")

// requantizeRows returns the rows of Requantize to one type.
func requantizeRows[T number](to tensor.DType, convert narrowing[T]) []kernels.Def {
	return rowOf(kernels.Always(func(ctx *kernels.Context) error {
		if err := checkTypes(ctx, tensor.QInt32); err != nil {
			return err
		}
		from, err := spanAt(ctx, 1, inputEnds)
		if err != nil {
			return err
		}
		into, err := spanAt(ctx, 3, named("requested_output_min", "requested_output_max"))
		if err != nil {
			return err
		}
		if !(into.min <= 0) {
			return status.InvalidArgumentf("requested_output_min must be <= 0, but got %v", into.min)
		}
		if !(into.max >= into.min) {
			return status.InvalidArgumentf("requested_output_max must be >= requested_output_min, but got %v and %v", into.max, into.min)
		}
		return requantized(ctx, to, from, into, convert)
	}), "Tinput", tensor.QInt32, "out_type", to)
}

// shrink is QuantizeDownAndShrinkRange: it converts 32-bit numbers to 8 bits, in the range that they actually use.
func shrink(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.QInt32); err != nil {
		return err
	}
	from, err := spanAt(ctx, 1, inputEnds)
	if err != nil {
		return err
	}
	return requantized(ctx, tensor.QUint8, from, used(tensor.Of[int32](ctx.Input(0)), from), narrowU8)
}

// usedRange is RequantizationRange.
func usedRange(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.QInt32, tensor.Float32, tensor.Float32); err != nil {
		return err
	}
	for i, name := range []string{"min", "max"} {
		if ctx.Input(1+i).Len() == 0 {
			return status.InvalidArgumentf("Input %s must not be empty.", name)
		}
	}
	s := span{tensor.Of[float32](ctx.Input(1))[0], tensor.Of[float32](ctx.Input(2))[0]}
	return used(tensor.Of[int32](ctx.Input(0)), s).put(ctx, 0)
}

// rowOf returns the row for the given attributes: types alternates attribute names and their types.
func rowOf(construct func(*kernels.Construction) (any, error), types ...any) []kernels.Def {
	row := kernels.Def{Types: map[string][]tensor.DType{}, Expensive: true, New: construct}
	for i := 0; i < len(types); i += 2 {
		row.Types[types[i].(string)] = []tensor.DType{types[i+1].(tensor.DType)}
	}
	return []kernels.Def{row}
}
