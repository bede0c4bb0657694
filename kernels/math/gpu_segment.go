package math

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// gpuSegment returns the kernel of a Segment op on an accelerator. The ids are in host memory, since the last one determines the output's
// size.
func gpuSegment(function string, dtype tensor.DType, empty float64, mean bool) kernels.Func {
	return func(ctx *kernels.Context) error {
		data, ids := ctx.Input(0), ctx.Input(1)
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		segments, inner, err := segmentShape(ctx, false)
		if err != nil {
			return err
		}
		rows, err := segmentOf(ids, segments, false)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, append(tensor.Shape{segments}, inner...))
		if err != nil || out.Len() == 0 {
			return err
		}
		starts := make([]int64, segments+1)
		for _, s := range rows {
			starts[s+1]++
		}
		for s := range segments {
			starts[s+1] += starts[s]
		}
		a := kernels.AcceleratorOf(ctx.Device)
		list, err := launch.UploadInts(ctx, a, starts)
		if err != nil {
			return err
		}
		defer list.Release()
		by := launch.Divisor(inner.Elements(), out.Len())
		a.Launch(ctx, launch.PerElement(a, function+"_"+launch.Suffixes[dtype], out.Len(), data.Address(), out.Address(), list.Address(),
			by[0], by[1], uint64(element.OneIf(mean)), kernels.Double(empty), uint64(out.Len())))
		return nil
	}
}

// gpuUnsortedSegment returns the kernel of an UnsortedSegment op on an accelerator. Rows with an invalid id are dropped, as in TensorFlow.
// Sums and products of half types stay float32 until the end.
func gpuUnsortedSegment(op update.Op, dtype tensor.DType, empty *tensor.Tensor) kernels.Func {
	return func(ctx *kernels.Context) error {
		data, ids := ctx.Input(0), ctx.Input(1)
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		segments, inner, err := segmentShape(ctx, true)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, append(tensor.Shape{segments}, inner...))
		if err != nil || out.Len() == 0 {
			return err
		}
		if empty.DType() == dtype {
			layout.Fill(ctx, out, empty)
			return update.ScatterOn(ctx, op, out, ids, ids.Len(), tensor.Shape{segments}, data)
		}
		sums, err := ctx.Device.Memory().New(tensor.Float32, out.Shape())
		if err != nil {
			return err
		}
		defer sums.Release()
		layout.Fill(ctx, sums, empty)
		if data.Len() > 0 {
			wide, err := ctx.Device.Memory().New(tensor.Float32, data.Shape())
			if err != nil {
				return err
			}
			defer wide.Release()
			convertOn(ctx, wide, data)
			if err := update.ScatterOn(ctx, op, sums, ids, ids.Len(), tensor.Shape{segments}, wide); err != nil {
				return err
			}
		}
		convertOn(ctx, out, sums)
		return nil
	}
}

// convertOn widens a half type to float32, or rounds float32 to a half type, by summing over single elements.
func convertOn(ctx *kernels.Context, to, from *tensor.Tensor) {
	reduce.Fold{Outer: from.Len(), Reduced: 1, Inner: 1, Parts: 1}.Launch(ctx, "reduce_sum", to, from, reduce.FinishNothing, 1)
}

// ends returns the least and the greatest finite element of a type, as scalars.
func ends(d tensor.DType) (least, greatest *tensor.Tensor) {
	e := finiteEnds[d]
	return e[0], e[1]
}

var finiteEnds = map[tensor.DType][2]*tensor.Tensor{
	tensor.Float32:  between[float32](tensor.Float32, -math.MaxFloat32, math.MaxFloat32),
	tensor.Float64:  between[float64](tensor.Float64, -math.MaxFloat64, math.MaxFloat64),
	tensor.Float16:  between[uint16](tensor.Float16, 0xfbff, 0x7bff),
	tensor.BFloat16: between[uint16](tensor.BFloat16, 0xff7f, 0x7f7f),
	tensor.Int32:    between[int32](tensor.Int32, math.MinInt32, math.MaxInt32),
	tensor.Int64:    between[int64](tensor.Int64, math.MinInt64, math.MaxInt64),
}

func between[T tensor.Elem](d tensor.DType, least, greatest T) [2]*tensor.Tensor {
	return [2]*tensor.Tensor{tensor.Scalar(d, least), tensor.Scalar(d, greatest)}
}
