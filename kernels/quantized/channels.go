package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// steps is the number of 32-bit numbers between zero and an end of their range.
const steps = float32(1 << 31)

// newChannelRange returns the kernel of RequantizationRangePerChannel, which computes the range that 32-bit numbers, with a range for each
// channel, actually use.
func newChannelRange(c *kernels.Construction) (any, error) {
	most, err := c.Attrs().Float("clip_value_max")
	return kernels.Func(func(ctx *kernels.Context) error { return channelRange(ctx, most) }), err
}

func channelRange(ctx *kernels.Context, most float32) error {
	if err := checkTypes(ctx, tensor.QInt32, tensor.Float32, tensor.Float32); err != nil {
		return err
	}
	in, lows, highs := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	depth := highs.Len()
	for i, name := range []string{"min", "max"} {
		if t := ctx.Input(1 + i); t.Rank() != 1 || t.Len() != depth {
			return status.InvalidArgumentf("input_%s has incorrect size, expected %d was %d", name, depth, t.Len())
		}
	}
	switch {
	case in.Len() == 0:
		return status.InvalidArgumentf("input must not be empty")
	case in.Rank() != 4:
		return status.InvalidArgumentf("input must be in NHWC format")
	case in.Dim(3) != depth:
		return status.InvalidArgumentf("input must have same number of channels as length of input_min: %d vs %d", in.Dim(3), depth)
	}
	m := ctx.Meter()
	defer m.Done()
	least, err := kernels.Scratch[int32](&m, depth)
	if err != nil {
		return err
	}
	greatest, err := kernels.Scratch[int32](&m, depth)
	if err != nil {
		return err
	}
	src := tensor.Of[int32](in)
	copy(least, src)
	copy(greatest, src)
	for ; len(src) > 0; src = src[depth:] {
		for c, v := range src[:depth] {
			least[c], greatest[c] = min(least[c], v), max(greatest[c], v)
		}
	}
	end, negative := float32(0x1p-126), false
	for c := range least {
		negative = negative || least[c] < 0
		end = larger(end, widest(lows, highs, c)*float32(max(magnitude(least[c]), magnitude(greatest[c])))/steps)
	}
	if end > most {
		end = most
	}
	s := span{0, end}
	if negative {
		s.min = -end
	}
	return s.put(ctx, 0)
}

// magnitude returns the absolute value of v, except that the least number stays unchanged.
func magnitude(v int32) int32 {
	if v < 0 {
		return -v
	}
	return v
}

// widest returns the absolute value of the end of a channel's range that is farther from zero.
func widest(lows, highs *tensor.Tensor, c int) float32 {
	return larger(absolute(tensor.Of[float32](lows)[c]), absolute(tensor.Of[float32](highs)[c]))
}

func absolute(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// requantizeChannelRows returns the rows of RequantizePerChannel to one type.
func requantizeChannelRows[T number](to tensor.DType) []kernels.Def {
	return rowOf(kernels.Always(func(ctx *kernels.Context) error { return requantizeChannels[T](ctx, to) }), "T", tensor.QInt32, "out_type", to)
}

// requantizeChannels scales each channel to the requested range and rounds halves to even.
func requantizeChannels[T number](ctx *kernels.Context, to tensor.DType) error {
	if err := checkTypes(ctx, tensor.QInt32, tensor.Float32, tensor.Float32, tensor.Float32, tensor.Float32); err != nil {
		return err
	}
	in, lows, highs := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if in.Rank() != 4 {
		return status.InvalidArgumentf("Current RequantizePerChannel operatorsupports 4D tensors only.")
	}
	depth := lows.Len()
	if highs.Len() != depth {
		return status.InvalidArgumentf("input_max has incorrect size, expected %d was %d", depth, highs.Len())
	}
	if in.Dim(3) != depth {
		return status.InvalidArgumentf("input must have same number of channels as length of input_min: %d vs %d", in.Dim(3), depth)
	}
	into, err := spanAt(ctx, 3, named("requested_output_min", "requested_output_max"))
	if err != nil {
		return err
	}
	lowest, highest := limits[T]()
	if lowest < 0 && !(into.min < 0) {
		return status.InvalidArgumentf("If out_type is QINT8, requested_output_max must be non negative, got %v", into.min)
	}
	m := ctx.Meter()
	defer m.Done()
	scales, err := kernels.Scratch[float32](&m, depth)
	if err != nil {
		return err
	}
	end := larger(absolute(into.min), absolute(into.max))
	for c := range scales {
		scales[c] = float32(highest) * (widest(lows, highs, c) / end / steps)
	}
	out, err := ctx.Allocate(0, to, in.Shape())
	if err != nil {
		return err
	}
	src, dst := tensor.Of[int32](in), tensor.Of[T](out)
	ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			v := math.RoundToEven(float64(float32(src[i]) * scales[i%depth]))
			dst[i] = T(clamped(v, float64(lowest), float64(highest)))
		}
	})
	return into.put(ctx, 1)
}
