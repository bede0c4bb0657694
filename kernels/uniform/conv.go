package uniform

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// convKernel is UniformQuantizedConvolution.
type convKernel struct {
	convAttrs
	limits           limits
	rhsAxis, outAxis int
}

func newConv(a *graph.AttrReader) kernels.Kernel {
	attrs, l := convAttrsOf(a), limitsOf(a, "output_")
	lhs, rhs, out := a.Int32("lhs_quantization_axis"), a.Int32("rhs_quantization_axis"), a.Int32("output_quantization_axis")
	if lhs != -1 {
		a.Failf("lhs_quantization_axis Attr must be -1 (per-tensor).")
	}
	return &convKernel{attrs, l, int(rhs), int(out)}
}

// Compute implements kernels.Kernel.
func (k *convKernel) Compute(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.QInt8, tensor.QInt8, tensor.Float32, tensor.Int32, tensor.Float32, tensor.Int32, tensor.Float32, tensor.Int32); err != nil {
		return err
	}
	lhs, rhs := ctx.Input(0), ctx.Input(1)
	for i, name := range []string{"lhs", "rhs", "output"} {
		if !positive(tensor.Of[float32](ctx.Input(2 + 2*i))) {
			return status.InvalidArgumentf("%s scales elements must be all positive.", name)
		}
	}
	plan, err := k.plan(lhs.Shape(), rhs.Shape())
	if err != nil {
		return err
	}
	p, err := k.grids(ctx, &plan)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	factors, err := p.factors(&m, plan.outputs)
	if err != nil {
		return err
	}
	left, err := inOrderOf(&m, tensor.Of[int8](lhs), lhs.Shape(), plan.lhs)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.QInt32, plan.shape)
	if err != nil {
		return err
	}
	dst := tensor.Of[int32](out)
	return plan.convolve(ctx, &m, quantizedRows{left, []int32{p.lhsZero}}, rhs, p.rhs, func(at, _, channel int, sum int32) {
		dst[at] = k.limits.clamp(factors[min(channel, len(factors)-1)].times(sum) + p.out.zero(channel))
	})
}

// grids returns the grids of the operands and of the result.
func (k *convKernel) grids(ctx *kernels.Context, plan *convPlan) (p product, err error) {
	scales, zeros := ctx.Input(2), ctx.Input(3)
	if scales.Rank() != 0 || zeros.Rank() != 0 {
		return p, status.InvalidArgumentf("lhs scales/zero_points must be all scalar tensors. Given: %v%v", scales.Shape(), zeros.Shape())
	}
	p.lhsScale, p.lhsZero = tensor.Of[float32](scales)[0], tensor.Of[int32](zeros)[0]
	if p.rhs, err = plan.filterGrid(ctx, 4, k.rhsAxis); err != nil {
		return p, err
	}
	if k.outAxis != -1 && k.outAxis != int(plan.out[1]) {
		return p, status.InvalidArgumentf("output_quantization_axis Attr must be -1 (per-tensor) or dimension_numbers.output_feature_dimension (per-channel).")
	}
	if p.out, err = gridAt(ctx, 6, plan.shape, k.outAxis); err != nil {
		return p, err
	}
	if p.rhs.axis < 0 && p.out.axis >= 0 {
		err = status.InvalidArgumentf("If rhs is per-tensor quantized, output must be also per-tensor quantized. Given output scales/zero_points of rank %d", ctx.Input(6).Rank())
	}
	return p, err
}

// filterGrid reads the grid of the filters, which are input 1, from inputs i and i+1.
func (p *convPlan) filterGrid(ctx *kernels.Context, i, axis int) (grid, error) {
	if axis != -1 && axis != int(p.rhs[0]) {
		return grid{}, status.InvalidArgumentf("rhs_quantization_axis Attr must be -1 (per-tensor) or dimension_numbers.kernel_output_feature_dimension (per-channel).")
	}
	return gridAt(ctx, i, ctx.Input(1).Shape(), axis)
}

// hybridConv is UniformQuantizedConvolutionHybrid, which quantizes each image itself.
type hybridConv struct {
	convAttrs
	rhsAxis int
}

func newHybridConv(a *graph.AttrReader) kernels.Kernel {
	return &hybridConv{convAttrsOf(a), int(a.Int32("rhs_quantization_axis"))}
}

// Compute implements kernels.Kernel.
func (k *hybridConv) Compute(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.Float32, tensor.QInt8, tensor.Float32, tensor.Int32); err != nil {
		return err
	}
	lhs, rhs := ctx.Input(0), ctx.Input(1)
	if !positive(tensor.Of[float32](ctx.Input(2))) {
		return status.InvalidArgumentf("rhs scales elements must be all positive.")
	}
	plan, err := k.plan(lhs.Shape(), rhs.Shape())
	if err != nil {
		return err
	}
	g, err := plan.filterGrid(ctx, 2, k.rhsAxis)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.Float32, plan.shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	images, err := inOrderOf(&m, tensor.Of[float32](lhs), lhs.Shape(), plan.lhs)
	if err != nil {
		return err
	}
	left, scales, err := quantizeRows(ctx, &m, images, plan.images, len(images)/plan.images)
	if err != nil {
		return err
	}
	dst := tensor.Of[float32](out)
	return plan.convolve(ctx, &m, left, rhs, g, func(at, image, channel int, sum int32) {
		dst[at] = float32(float32(sum)*scales[image]) * g.scale(channel)
	})
}

// inOrderOf returns the elements of a tensor with its axes in the order of the computation.
func inOrderOf[T any](m *kernels.Meter, src []T, shape tensor.Shape, order axes) ([]T, error) {
	ordered := true
	for i, at := range order {
		ordered = ordered && at == int64(i)
	}
	if ordered {
		return src, nil
	}
	dst, err := kernels.Scratch[T](m, len(src))
	if err != nil {
		return nil, err
	}
	to, steps := order.of(shape), order.of(strides(shape))
	index, from := make([]int64, len(to)), int64(0)
	for i := range dst {
		dst[i] = src[from]
		for d := len(to) - 1; d >= 0; d-- {
			index[d]++
			if from += steps[d]; index[d] < to[d] {
				break
			}
			from -= steps[d] * to[d]
			index[d] = 0
		}
	}
	return dst, nil
}

// strides returns the stride of each axis of a tensor.
func strides(shape tensor.Shape) tensor.Shape {
	s, step := make(tensor.Shape, len(shape)), int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = step
		step *= shape[i]
	}
	return s
}

// convolve calls put for each element of the result, with its offset in the output, its image, its channel and the sum of products of its
// window. Positions outside an image, or in its gaps, count as the zero point and add nothing.
func (p *convPlan) convolve(ctx *kernels.Context, m *kernels.Meter, images quantizedRows, rhs *tensor.Tensor, g grid, put func(at, image, channel int, sum int32)) error {
	filters, err := inOrderOf(m, tensor.Of[int8](rhs), rhs.Shape(), p.rhs)
	if err != nil {
		return err
	}
	weights, err := kernels.Scratch[int32](m, len(filters))
	if err != nil {
		return err
	}
	taps, places, pixels := 1, 1, 1
	for _, d := range p.dims {
		taps, places, pixels = taps*d.filter, places*d.out, pixels*d.image
	}
	inner := p.inputs * taps
	for i, v := range filters {
		weights[i] = int32(v) - g.zero(i/inner)
	}
	steps := p.out.of(strides(p.shape))
	ctx.Parallel(p.batch*places, max(1, element.CheapGrain/max(1, inner*p.outputs)), func(lo, hi int) {
		patch, from := make([]int32, inner), make([]int, taps)
		for i := lo; i < hi && ctx.Ended() == nil; i++ {
			batch := i / places
			at := batch*int(steps[0]) + p.window(from, i%places, steps[2:])
			image, group := -1, -1
			for channel := range p.outputs {
				of, features := channel/(p.outputs/p.batchGroups)*p.batch+batch, channel/(p.outputs/p.featureGroups)
				if of != image || features != group {
					image, group = of, features
					zero := images.zeros[min(image, len(images.zeros)-1)]
					for c := range p.inputs {
						line := images.numbers[(image*p.channels+group*p.inputs+c)*pixels:][:pixels]
						for t, pixel := range from {
							patch[c*taps+t] = 0
							if pixel >= 0 {
								patch[c*taps+t] = int32(line[pixel]) - zero
							}
						}
					}
				}
				sum := int32(0)
				for j, w := range weights[channel*inner:][:inner] {
					sum += w * patch[j]
				}
				put(at+channel*int(steps[1]), image, channel, sum)
			}
		}
	})
	return ctx.Ended()
}

// window sets from to the pixels that the taps of a place see, or -1 for none, and returns the offset of the place in the output.
func (p *convPlan) window(from []int, place int, steps tensor.Shape) (at int) {
	clear(from)
	pixels, taps := 1, 1 // the numbers of pixels and taps in the dimensions after this one
	for i := len(p.dims) - 1; i >= 0; i-- {
		d := &p.dims[i]
		x := place % d.out
		place /= d.out
		at += x * int(steps[i])
		for t := range from {
			if from[t] < 0 {
				continue
			}
			pixel := x*d.stride + t/taps%d.filter*d.dilation - d.before
			if pixel < 0 || pixel%d.holes != 0 || pixel/d.holes >= d.image {
				from[t] = -1
				continue
			}
			from[t] += pixel / d.holes * pixels
		}
		pixels, taps = pixels*d.image, taps*d.filter
	}
	return at
}
