package uniform

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// number is the integer type of the elements of a quantized type.
type number interface{ int8 | uint8 | int32 }

// grid maps numbers to floats, for a whole tensor or for each slice along an axis. It does not own the memory of its slices.
type grid struct {
	scales []float32 // one for all slices, or one for each; likewise for zeros
	zeros  []int32
	axis   int // -1 for a whole tensor
}

// gridAt reads inputs i and i+1, the scales and zero points of a tensor of the given shape.
func gridAt(ctx *kernels.Context, i int, shape tensor.Shape, axis int) (grid, error) {
	scales, zeros := ctx.Input(i), ctx.Input(i+1)
	if err := args.FirstError(args.CheckType(ctx, i, tensor.Float32), args.CheckType(ctx, i+1, tensor.Int32)); err != nil {
		return grid{}, err
	}
	switch {
	case !scales.Shape().Equal(zeros.Shape()):
		return grid{}, status.InvalidArgumentf("scales and zero_points shape must be same, but given scales shape %v and zero_points shape %v", scales.Shape(), zeros.Shape())
	case axis < -1 || axis >= len(shape):
		return grid{}, status.InvalidArgumentf("quantization_axis must be -1 or in range [0, input.rank), but given %d", axis)
	case axis == -1 && scales.Rank() != 0:
		return grid{}, status.InvalidArgumentf("If quantization_axis is -1, scales and zero_points must be scalar tensors, but given scales shape %v and zero_points shape %v", scales.Shape(), zeros.Shape())
	case axis >= 0 && (scales.Rank() != 1 || scales.Shape()[0] != shape[axis]):
		return grid{}, status.InvalidArgumentf("If quantization_axis is not -1, scales and zero_points must be a tensor of rank 1 and the size must be equal to the input.dim_size(quantization_axis), but given quantization_axis %d, scales shape %v and zero_points shape %v", axis, scales.Shape(), zeros.Shape())
	}
	return grid{tensor.Of[float32](scales), tensor.Of[int32](zeros), axis}, nil
}

// eitherGridAt is gridAt, except that scalar scales override the axis.
func eitherGridAt(ctx *kernels.Context, i int, shape tensor.Shape, axis int) (grid, error) {
	if ctx.Input(i).Rank() == 0 {
		axis = -1
	}
	return gridAt(ctx, i, shape, axis)
}

// scale and zero return the scale and the zero point of a slice.
func (g grid) scale(slice int) float32 { return g.scales[min(slice, len(g.scales)-1)] }
func (g grid) zero(slice int) int32    { return g.zeros[min(slice, len(g.zeros)-1)] }

// checkTypes rejects inputs whose types differ from the given ones, starting with input 0.
func checkTypes(ctx *kernels.Context, types ...tensor.DType) error {
	for i, t := range types {
		if err := args.CheckType(ctx, i, t); err != nil {
			return err
		}
	}
	return nil
}

// positive reports whether all scales are positive. NaN is not.
func positive(scales []float32) bool {
	for _, s := range scales {
		if !(s > 0) {
			return false
		}
	}
	return true
}

// longRun is the number of elements of a run between two checks for the end of the step.
const longRun = 1 << 18

// eachRun calls body in parallel for runs of elements of the same slice along an axis. With axis -1, the whole tensor is one slice.
func eachRun(ctx *kernels.Context, shape tensor.Shape, axis int, body func(slice, lo, hi int)) {
	n := shape.Elements()
	if axis < 0 || n == 0 {
		ctx.Parallel(n, element.CheapGrain, func(lo, hi int) { body(0, lo, hi) })
		return
	}
	slices, run := int(shape[axis]), shape[axis+1:].Elements()
	ctx.Parallel(n/run, max(1, element.CheapGrain/run), func(lo, hi int) {
		for r := lo; r < hi; r++ {
			for at := r * run; at < (r+1)*run && (at == r*run || ctx.Ended() == nil); at += longRun {
				body(r%slices, at, min(at+longRun, (r+1)*run))
			}
		}
	})
}

// limits are the least and the greatest number that an op outputs.
type limits struct{ least, most int32 }

// limitsOf reads the attributes that hold the limits, whose names start with prefix.
func limitsOf(a *graph.AttrReader, prefix string) limits {
	return limits{a.Int32(prefix + "quantization_min_val"), a.Int32(prefix + "quantization_max_val")}
}

func (l limits) clamp(v int32) int32 { return max(min(v, l.most), l.least) }

// axisAttr reads an axis, which must be at least -1.
func axisAttr(a *graph.AttrReader, name string) int {
	v := a.Int32(name)
	if v < -1 {
		a.Failf("%s must be >= -1, given: %d", name, v)
	}
	return int(v)
}
