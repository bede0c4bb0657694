package array

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// roll is Roll: elements move along axes, those that leave at one end come in at the other.
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
	switch in.DType() {
	case tensor.String:
		rollRows(out.Strings(), in.Strings(), in.Shape(), shifts)
	case tensor.Resource:
		rollRows(out.Handles(), in.Handles(), in.Shape(), shifts)
	case tensor.Variant:
		rollRows(out.Variants(), in.Variants(), in.Shape(), shifts)
		tensor.RetainVariants(out.Variants())
	default:
		size := in.DType().Size()
		bytes := append(in.Shape().Clone(), int64(size))
		rollRows(out.Data(), in.Data(), bytes, append(shifts, 0))
	}
	return nil
}

// rollRows moves what lies within the last shifted dimension in two runs.
func rollRows[E any](dst, src []E, shape tensor.Shape, shifts []int) {
	last := len(shape) - 1
	run := 1
	for last > 0 && shifts[last] == 0 {
		run *= int(shape[last])
		last--
	}
	n := int(shape[last])
	line := n * run
	cut := (n - shifts[last]) * run
	for l := range len(src) / line {
		to, rest, step := 0, l, 1
		for d := last - 1; d >= 0; d-- {
			size := int(shape[d])
			to += (rest%size + shifts[d]) % size * step
			rest /= size
			step *= size
		}
		from, into := src[l*line:(l+1)*line], dst[to*line:(to+1)*line]
		copy(into[line-cut:], from[:cut])
		copy(into, from[cut:])
	}
}

// histogramKernel is HistogramFixedWidth: how many values fall into each of equal bins of a range,
// those beyond it into the first and the last.
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
	counts := make([]int64, bins)
	step := (hi - lo) / float64(bins)
	for _, v := range element.ViewOf[T](values) {
		if f := float64(v); f != f {
			return status.InvalidArgumentf("values must not contain NaN")
		}
		at := (min(max(float64(v), lo), hi) - lo) / step
		counts[int(min(at, float64(bins-1)))]++
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

func histogramRows[T element.Integer | element.Floating](table *kernels.Table) {
	dtype := element.DTypeOf[T]()
	for _, out := range []tensor.DType{tensor.Int32, tensor.Int64} {
		table.Add(kernels.Def{Op: "HistogramFixedWidth", Types: map[string][]tensor.DType{"T": {dtype}, "dtype": {out}}, New: func(*kernels.Construction) (any, error) {
			return &histogramKernel[T]{dtype, out}, nil
		}})
	}
}
