package quantized

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// spanAt reads a range from the scalars at inputs lo and lo+1. refused returns the error for an input that is not a scalar.
func spanAt(ctx *kernels.Context, lo int, refused func(i int, t *tensor.Tensor) error) (s span, err error) {
	for i := range 2 {
		if err := args.CheckType(ctx, lo+i, tensor.Float32); err != nil {
			return s, err
		}
		if t := ctx.Input(lo + i); t.Rank() != 0 {
			return s, refused(i, t)
		}
	}
	return span{tensor.Of[float32](ctx.Input(lo))[0], tensor.Of[float32](ctx.Input(lo + 1))[0]}, nil
}

// named returns the usual refused function of spanAt, for inputs with the given names.
func named(names ...string) func(i int, t *tensor.Tensor) error {
	return func(i int, t *tensor.Tensor) error {
		return status.InvalidArgumentf("`%s` must be rank 0 but is rank %d", names[i], t.Rank())
	}
}

// checkTypes rejects inputs whose types differ from the given ones, starting with input 0.
func checkTypes(ctx *kernels.Context, types ...tensor.DType) error {
	for i, t := range types {
		if err := args.CheckType(ctx, i, t); err != nil {
			return err
		}
	}
	return nil
}

// put sets outputs o and o+1 to the range, as scalars.
func (s span) put(ctx *kernels.Context, o int) error {
	for i, v := range []float32{s.min, s.max} {
		t, err := ctx.Allocate(o+i, tensor.Float32, nil)
		if err != nil {
			return err
		}
		tensor.Of[float32](t)[0] = v
	}
	return nil
}

// level returns the difference between adjacent numbers of T in the range.
func level[T number](s span) float32 {
	lowest, highest := limits[T]()
	return (s.max - s.min) / float32(highest-lowest)
}

// product returns the range, in C, of products of A and B.
func product[A, B, C number](a, b span) span {
	lowest, highest := limits[C]()
	one := level[A](a) * level[B](b)
	return span{one * float32(lowest), one * float32(highest)}
}

// unclamped returns the number nearest to v, which may be out of T's range.
func unclamped[T number](v float32, s span) int64 {
	lowest, _ := limits[T]()
	if s.min == s.max {
		return lowest
	}
	steps := float64(int64(1) << bitsOf[T]())
	scale := steps / (float64(s.max-s.min) * (steps / (steps - 1)))
	return int64(math.Round(float64(v)*scale)-math.Round(float64(s.min)*scale)) + lowest
}

// quantize returns the number nearest to v.
func quantize[T number](v float32, s span) T {
	lowest, highest := limits[T]()
	return T(min(max(unclamped[T](v, s), lowest), highest))
}

// dequantize returns the float that a number represents.
func dequantize[T number](v T, s span) float32 {
	if s.min == s.max {
		return s.min
	}
	lowest, _ := limits[T]()
	steps := float64(int64(1) << bitsOf[T]())
	scale := float64(s.max-s.min) * (steps / (steps - 1)) / steps
	least := float32(math.Round(float64(s.min/float32(scale)))) * float32(scale)
	return float32(float64(least) + (float64(v)-float64(lowest))*scale)
}
