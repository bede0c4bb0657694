package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
)

// deviceConv3 is Conv3D or one of its gradients on an accelerator, for volumes whose channels come last.
type deviceConv3 struct {
	windowing3
	dtype tensor.DType
	tf32  bool
	// spelled is set if the shape of the gradient's result is the value of an input, not that input's own shape.
	spelled bool
}

// plan checks the shapes, and rejects volumes that are too large for the functions to index.
func (k *deviceConv3) plan(ctx *kernels.Context, image, filter tensor.Shape) (volume3, error) {
	v, err := k.windowing3.plan(image, filter)
	if err != nil {
		return v, err
	}
	const most = 1<<31 - 1
	p := &v.plane
	voxels, ok := int64(1), true
	for _, n := range []int{v.batch, max(v.planes.in, v.planes.out), max(p.rows.in, p.rows.out), max(p.cols.in, p.cols.out)} {
		if n > 0 && voxels > most/int64(n) {
			ok = false
			break
		}
		voxels *= int64(max(n, 1))
	}
	for _, w := range v.axes() {
		ok = ok && w.in < mostPixels && w.size < mostPixels/max(w.dilation, 1) && w.out < mostPixels/max(w.stride, 1)
	}
	if !ok {
		return v, status.Errorf(status.ResourceExhausted, "A convolution of %d volumes of %d by %d by %d is too large for %s", v.batch, v.planes.in, p.rows.in, p.cols.in, ctx.Device.Name())
	}
	return v, nil
}

// axes returns the windows over planes, rows and columns.
func (v *volume3) axes() [3]*window { return [3]*window{&v.planes, &v.plane.rows, &v.plane.cols} }

// patch returns the length of a patch of one group, places the number of places of all volumes.
func (v *volume3) patch() int { return v.planes.size * v.plane.patch() }

func (v *volume3) places() int { return v.batch * v.planes.out * v.plane.rows.out * v.plane.cols.out }

// words returns the parameters that describe how the window moves over the volume.
func (v *volume3) words() []uint64 {
	words := []uint64{uint64(v.plane.inDepth), uint64(v.plane.groupDepth)}
	for _, w := range v.axes() {
		words = append(words, uint64(w.in), uint64(w.out), uint64(w.size), uint64(w.stride), -uint64(w.before), uint64(w.dilation), 1)
	}
	return words
}

// backWords returns the parameters that describe which places of the result see an element of the volume.
func (v *volume3) backWords(width int) []uint64 {
	words := []uint64{uint64(v.plane.outDepth), uint64(width)}
	for _, w := range v.axes() {
		words = append(words, uint64(w.out), uint64(w.in), uint64(w.size), 1, uint64(w.before), -uint64(w.dilation), uint64(w.stride))
	}
	return words
}

// forward is Conv3D: the product of patches and filter.
func (k *deviceConv3) forward(ctx *kernels.Context) error {
	image, filter := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	v, err := k.plan(ctx, image.Shape(), filter.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, v.outShape())
	if err != nil || out.Len() == 0 {
		return err
	}
	if image.Len() == 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
		return nil
	}
	c := &v.plane
	width := c.outDepth / c.groups
	return k.run(ctx, "forward", out, v.places(), width, v.patch(), c.groups, func(partial uint64) []uint64 {
		return slices.Concat(
			[]uint64{image.Address(), uint64(v.places()), uint64(v.patch()), gemm.Flag(gemm.Aligned(image, c.inDepth, c.groupDepth))}, v.words(),
			matrixOf(filter, width, v.patch(), c.outDepth), gemm.OutputWords(out, partial, width, c.outDepth),
			[]uint64{uint64(c.groupDepth), uint64(width), uint64(width)})
	})
}

// filterGrad is Conv3DBackpropFilter: the product of the transposed patches and the gradient.
func (k *deviceConv3) filterGrad(ctx *kernels.Context) error {
	image, grad := ctx.Input(0), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := shape3(ctx, 1, k.spelled, "filter_sizes")
	if err != nil {
		return err
	}
	if done, err := withoutFilter(ctx, k.dtype, shape, shape); done {
		return err
	}
	v, err := k.plan(ctx, image.Shape(), shape)
	if err != nil {
		return err
	}
	if err := v.checkGradient(grad.Shape()); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if image.Len() == 0 || grad.Len() == 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
		return nil
	}
	c := &v.plane
	width := c.outDepth / c.groups
	return k.run(ctx, "filter", out, v.patch(), width, v.places(), c.groups, func(partial uint64) []uint64 {
		return slices.Concat(
			[]uint64{image.Address(), uint64(v.patch()), uint64(v.places()), gemm.Flag(gemm.Aligned(image, c.inDepth, c.groupDepth))}, v.words(),
			matrixOf(grad, width, v.places(), c.outDepth), gemm.OutputWords(out, partial, width, c.outDepth),
			[]uint64{uint64(c.groupDepth), uint64(width), uint64(width)})
	})
}

// inputGrad is Conv3DBackpropInput: for each element of the volume, the product of patches of the gradient and the filter's taps. If the
// stride leaves no place of the result for a tap, the patch has zeros there.
func (k *deviceConv3) inputGrad(ctx *kernels.Context) error {
	filter, grad := ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := shape3(ctx, 0, k.spelled, "input_sizes")
	if err != nil {
		return err
	}
	if done, err := withoutFilter(ctx, k.dtype, filter.Shape(), shape); done {
		return err
	}
	v, err := k.plan(ctx, shape, filter.Shape())
	if err != nil {
		return err
	}
	if err := v.checkGradient(grad.Shape()); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	if grad.Len() == 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
		return nil
	}
	c := &v.plane
	width := c.outDepth / c.groups
	taps := v.planes.size * c.rows.size * c.cols.size
	voxels := v.batch * v.planes.in * c.rows.in * c.cols.in
	return k.run(ctx, "input", out, voxels, c.groupDepth, taps*width, c.groups, func(partial uint64) []uint64 {
		return slices.Concat(
			[]uint64{grad.Address(), uint64(voxels), uint64(taps * width), gemm.Flag(gemm.Aligned(grad, c.outDepth, width))}, v.backWords(width),
			// The taps of the filter lie in one row.
			[]uint64{filter.Address(), uint64(c.groupDepth), uint64(taps * width), gemm.Flag(gemm.Aligned(filter, c.outDepth, width)), uint64(taps), uint64(width),
				0, uint64(c.groupDepth * c.outDepth), uint64(c.outDepth), 0, 0, 1, 1},
			gemm.OutputWords(out, partial, c.groupDepth, c.inDepth),
			[]uint64{uint64(width), uint64(width), uint64(c.groupDepth)})
	})
}

// run launches a function of conv3.cu or conv3_sm80.cu.
func (k *deviceConv3) run(ctx *kernels.Context, what string, out *tensor.Tensor, m, n, depth, batch int, args func(partial uint64) []uint64) error {
	g := gemm.Launch{Tiling: convTiling(ctx, "conv3_"+what, k.dtype, k.tf32), M: m, N: n, K: depth, Batch: batch, Out: out}
	return g.Run(ctx, args)
}
