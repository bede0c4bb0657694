package uniform

import (
	"math"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// quantizeRow is UniformQuantize to one type.
func quantizeRow[T number](to tensor.DType) []kernels.Def {
	return rowOf(func(a *graph.AttrReader) kernels.Kernel {
		axis, l := axisAttr(a, "quantization_axis"), limitsOf(a, "")
		return kernels.Func(func(ctx *kernels.Context) error { return quantize[T](ctx, to, axis, l) })
	}, "Tin", tensor.Float32, "Tout", to)
}

func quantize[T number](ctx *kernels.Context, to tensor.DType, axis int, l limits) error {
	if err := checkTypes(ctx, tensor.Float32); err != nil {
		return err
	}
	in := ctx.Input(0)
	g, err := gridAt(ctx, 1, in.Shape(), axis)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, to, in.Shape())
	if err != nil {
		return err
	}
	src, dst := tensor.Of[float32](in), tensor.Of[T](out)
	eachRun(ctx, in.Shape(), axis, func(slice, lo, hi int) {
		toGrid(dst[lo:hi], src[lo:hi], 1/g.scale(slice), g.zero(slice), l)
	})
	return nil
}

// toGrid sets dst to the numbers nearest to the floats of src. Halves round up.
func toGrid[T number](dst []T, src []float32, inverse float32, zero int32, l limits) {
	for i, v := range src {
		dst[i] = T(l.clamp(element.Trunc32(math.Floor(float64(float32(v*inverse)+0.5))) + zero))
	}
}

// dequantizeRow is UniformDequantize of one type.
func dequantizeRow[T number](from tensor.DType) []kernels.Def {
	return rowOf(func(a *graph.AttrReader) kernels.Kernel {
		axis := int(a.Int32("quantization_axis"))
		return kernels.Func(func(ctx *kernels.Context) error { return dequantize[T](ctx, from, axis) })
	}, "Tin", from, "Tout", tensor.Float32)
}

func dequantize[T number](ctx *kernels.Context, from tensor.DType, axis int) error {
	if err := checkTypes(ctx, from); err != nil {
		return err
	}
	in := ctx.Input(0)
	g, err := gridAt(ctx, 1, in.Shape(), axis)
	if err != nil {
		return err
	}
	if !positive(g.scales) {
		return status.InvalidArgumentf("rhs scales elements must be all positive.")
	}
	out, err := ctx.Allocate(0, tensor.Float32, in.Shape())
	if err != nil {
		return err
	}
	src, dst := tensor.Of[T](in), tensor.Of[float32](out)
	eachRun(ctx, in.Shape(), axis, func(slice, lo, hi int) {
		scale, zero := g.scale(slice), float32(g.zero(slice))
		for i, v := range src[lo:hi] {
			dst[lo+i] = (float32(v) - zero) * scale
		}
	})
	return nil
}

// newClip returns the kernel of UniformQuantizedClipByValue, whose bounds are quantized like the operand.
func newClip(a *graph.AttrReader) kernels.Kernel {
	axis := int(a.Int32("quantization_axis"))
	return kernels.Func(func(ctx *kernels.Context) error { return clip(ctx, axis) })
}

func clip(ctx *kernels.Context, axis int) error {
	if err := checkTypes(ctx, tensor.QInt32, tensor.QInt32, tensor.QInt32); err != nil {
		return err
	}
	in := ctx.Input(0)
	g, err := gridAt(ctx, 3, in.Shape(), axis)
	if err != nil {
		return err
	}
	scales := ctx.Input(3).Shape()
	for i, name := range []string{"min", "max"} {
		if bounds := ctx.Input(1 + i); !bounds.Shape().Equal(scales) {
			return status.InvalidArgumentf("Input %s shape must be same as scales/zero_points. Given %s of shape %v and scales/zero_points of shape %v", name, name, bounds.Shape(), scales)
		}
	}
	out, err := ctx.Allocate(0, in.DType(), in.Shape())
	if err != nil {
		return err
	}
	least, most := tensor.Of[int32](ctx.Input(1)), tensor.Of[int32](ctx.Input(2))
	src, dst := tensor.Of[int32](in), tensor.Of[int32](out)
	eachRun(ctx, in.Shape(), g.axis, func(slice, lo, hi int) {
		for i, v := range src[lo:hi] {
			dst[lo+i] = min(max(v, least[slice]), most[slice])
		}
	})
	return nil
}
