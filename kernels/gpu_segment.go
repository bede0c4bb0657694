package kernels

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

// gpuSegment is an op of the Segment family on an accelerator: the ids lie on the host, since the last
// of them is the output's size.
func gpuSegment(function string, dtype tensor.DType, empty float64, mean bool) Func {
	return func(ctx *Context) error {
		data, ids := ctx.Input(0), ctx.Input(1)
		if err := checkType(ctx, 0, dtype); err != nil {
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
		a := accelerator(ctx.Device)
		list, err := uploadInts(ctx, a, starts)
		if err != nil {
			return err
		}
		defer list.Release()
		by := divisor(inner.Elements(), out.Len())
		a.Launch(ctx, elementwise(a, function+"_"+suffixes[dtype], out.Len(), data.Address(), out.Address(), list.Address(),
			by[0], by[1], uint64(oneIf(mean)), Double(empty), uint64(out.Len())))
		return nil
	}
}

// gpuUnsortedSegment is an op of the UnsortedSegment family on an accelerator. Rows whose id is none
// are left out, as with TensorFlow's. Sums and products of half types are floats until the end.
func gpuUnsortedSegment(op updateOp, dtype tensor.DType, empty *tensor.Tensor) Func {
	return func(ctx *Context) error {
		data, ids := ctx.Input(0), ctx.Input(1)
		if err := checkType(ctx, 0, dtype); err != nil {
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
			fill(ctx, out, empty)
			return scatterOn(ctx, op, out, ids, ids.Len(), tensor.Shape{segments}, data)
		}
		sums, err := ctx.Device.Memory().New(tensor.Float32, out.Shape())
		if err != nil {
			return err
		}
		defer sums.Release()
		fill(ctx, sums, empty)
		if data.Len() > 0 {
			wide, err := ctx.Device.Memory().New(tensor.Float32, data.Shape())
			if err != nil {
				return err
			}
			defer wide.Release()
			convertOn(ctx, wide, data)
			if err := scatterOn(ctx, op, sums, ids, ids.Len(), tensor.Shape{segments}, wide); err != nil {
				return err
			}
		}
		convertOn(ctx, out, sums)
		return nil
	}
}

// convertOn widens a half type to float, or rounds a float: sums of one element.
func convertOn(ctx *Context, to, from *tensor.Tensor) {
	gpuFold{from.Len(), 1, 1, 1}.launch(ctx, "reduce_sum", to, from, finishNothing, 1)
}

// ends are the least and the greatest finite element of a type, as scalars.
func ends(d tensor.DType) (least, greatest *tensor.Tensor) {
	switch d {
	case tensor.Float32:
		return tensor.Scalar(d, float32(-math.MaxFloat32)), tensor.Scalar(d, float32(math.MaxFloat32))
	case tensor.Float64:
		return tensor.Scalar(d, -math.MaxFloat64), tensor.Scalar(d, math.MaxFloat64)
	case tensor.Float16:
		return tensor.Scalar(d, uint16(0xfbff)), tensor.Scalar(d, uint16(0x7bff))
	case tensor.BFloat16:
		return tensor.Scalar(d, uint16(0xff7f)), tensor.Scalar(d, uint16(0x7f7f))
	case tensor.Int32:
		return tensor.Scalar(d, int32(math.MinInt32)), tensor.Scalar(d, int32(math.MaxInt32))
	}
	return tensor.Scalar(tensor.Int64, int64(math.MinInt64)), tensor.Scalar(tensor.Int64, int64(math.MaxInt64))
}

func init() {
	for _, dtype := range scattered {
		row := func(op string, f Func, host string) {
			Register(Def{Op: op, Device: "GPU", Types: only("T", dtype), HostInputs: []string{host}, New: always(f)})
		}
		row("SegmentSum", gpuSegment("segment_sum", dtype, 0, false), "segment_ids")
		row("SegmentMean", gpuSegment("segment_sum", dtype, 0, true), "segment_ids")
		row("SegmentProd", gpuSegment("segment_prod", dtype, 1, false), "segment_ids")
		row("SegmentMin", gpuSegment("segment_min", dtype, 0, false), "segment_ids")
		row("SegmentMax", gpuSegment("segment_max", dtype, 0, false), "segment_ids")
		least, greatest := ends(dtype)
		wide := dtype
		if dtype == tensor.Float16 || dtype == tensor.BFloat16 {
			wide = tensor.Float32
		}
		one, err := oneOf(wide)
		if err != nil {
			panic(err)
		}
		zeros, err := tensor.Zeros(tensor.Host, wide, nil)
		if err != nil {
			panic(err)
		}
		row("UnsortedSegmentSum", gpuUnsortedSegment(updateAdd, dtype, zeros), "num_segments")
		row("UnsortedSegmentProd", gpuUnsortedSegment(updateMul, dtype, one), "num_segments")
		row("UnsortedSegmentMax", gpuUnsortedSegment(updateMax, dtype, least), "num_segments")
		row("UnsortedSegmentMin", gpuUnsortedSegment(updateMin, dtype, greatest), "num_segments")
	}
}
