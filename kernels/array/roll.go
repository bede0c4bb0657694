package array

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

// roll is Roll: it shifts elements along axes. Those that leave at one end reappear at the other.
func roll(ctx *kernels.Context) error {
	in, shift, axis := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	switch {
	case in.Rank() == 0:
		return status.InvalidArgumentf("input must be 1-D or higher")
	case shift.Rank() > 1:
		return status.InvalidArgumentf("shift must be a scalar or a 1-D vector. Found: %v", shift.Shape())
	case axis.Rank() > 1:
		return status.InvalidArgumentf("axis must be a scalar or a 1-D vector. Found: %v", axis.Shape())
	case !shift.Shape().Equal(axis.Shape()):
		return status.InvalidArgumentf("shift and axis must have the same size")
	}
	shifts := make([]int, in.Rank())
	for i := range shift.Len() {
		a, err1 := args.IntAt(axis, i)
		by, err2 := args.IntAt(shift, i)
		if err := args.FirstError(err1, err2); err != nil {
			return err
		}
		if a < 0 {
			a += int64(in.Rank())
		}
		if a < 0 || a >= int64(in.Rank()) {
			return status.InvalidArgumentf("axis %d is out of range", a)
		}
		d := max(1, in.Shape()[a])
		shifts[a] = int((int64(shifts[a]) + by%d + d) % d)
	}
	out, err := ctx.Allocate(0, in.DType(), in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	if !out.OnHost() {
		rollOn(ctx, out, in, shifts)
		return nil
	}
	layout.Roll(out, in, shifts)
	return nil
}

// histogramKernel is HistogramFixedWidth: the number of values in each of the equal bins of a range. Values out of range count in the first
// or the last bin.
type histogramKernel[T element.Integer | element.Floating] struct{ dtype, out tensor.DType }

func (k *histogramKernel[T]) Compute(ctx *kernels.Context) error {
	values, bounds, count := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, tensor.Int32)); err != nil {
		return err
	}
	if bounds.Rank() != 1 {
		return status.InvalidArgumentf("value_range should be a vector.")
	}
	if bounds.Len() != 2 {
		return status.InvalidArgumentf("value_range should be a vector of 2 elements.")
	}
	if count.Rank() != 0 {
		return status.InvalidArgumentf("nbins should be a scalar.")
	}
	lo, hi := float64(element.ViewOf[T](bounds)[0]), float64(element.ViewOf[T](bounds)[1])
	bins := tensor.Of[int32](count)[0]
	if !(lo < hi) {
		return status.InvalidArgumentf("value_range should satisfy value_range[0] < value_range[1], but got '[%v, %v]'", element.ViewOf[T](bounds)[0], element.ViewOf[T](bounds)[1])
	}
	if bins <= 0 {
		return status.InvalidArgumentf("nbins should be a positive number, but got '%d'", bins)
	}
	out, err := ctx.Allocate(0, k.out, tensor.Shape{int64(bins)})
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	counts, err := kernels.Scratch[int64](&m, int(bins))
	if err != nil {
		return err
	}
	step := (hi - lo) / float64(bins)
	if math.IsInf(step, 0) { // the difference may overflow
		step = hi/float64(bins) - lo/float64(bins)
	}
	for _, v := range element.ViewOf[T](values) {
		switch f := float64(v); {
		case f != f:
			return status.InvalidArgumentf("values must not contain NaN")
		case f >= hi:
			counts[bins-1]++
		case f > lo:
			// No bin of an infinite range is nearest, nor if the bins have no width left.
			if at := (f - lo) / step; at == at {
				counts[int(min(at, float64(bins-1)))]++
				continue
			}
			fallthrough
		default:
			counts[0]++
		}
	}
	for i, n := range counts {
		if k.out == tensor.Int32 {
			tensor.Of[int32](out)[i] = int32(n)
		} else {
			tensor.Of[int64](out)[i] = n
		}
	}
	return nil
}

// histogramOf returns the rows of HistogramFixedWidth for one element type.
func histogramOf[T element.Integer | element.Floating]() []kernels.Def {
	row := func(out tensor.DType) kernels.Def {
		k := &histogramKernel[T]{element.DTypeOf[T](), out}
		return kernels.Def{Types: map[string][]tensor.DType{"T": {k.dtype}, "dtype": {out}}, New: func(*kernels.Construction) (any, error) { return k, nil }}
	}
	return []kernels.Def{row(tensor.Int32), row(tensor.Int64)}
}
