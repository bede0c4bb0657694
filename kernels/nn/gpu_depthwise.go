package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// deviceDepthwise is DepthwiseConv2dNative or one of its gradients on an accelerator. It uses the functions in depthwise.cu.
type deviceDepthwise struct {
	windowing
	dtype tensor.DType
}

// words returns the parameters that hold the sizes.
func (k *deviceDepthwise) words(d *depthwise) []uint64 {
	return slices.Concat(gridWords(d.inDepth, d.rows.in, d.cols.in, k.channelsFirst), gridWords(d.outDepth, d.rows.out, d.cols.out, k.channelsFirst),
		d.rows.words(), d.cols.words(), []uint64{uint64(d.times)})
}

func (k *deviceDepthwise) launch(ctx *kernels.Context, function string, a, b, out *tensor.Tensor, d *depthwise) {
	dev := kernels.AcceleratorOf(ctx.Device)
	dev.Launch(ctx, launch.PerElement(dev, function+launch.Suffixes[k.dtype], out.Len(), append([]uint64{a.Address(), b.Address(), out.Address(), uint64(out.Len())}, k.words(d)...)...))
}

func (k *deviceDepthwise) forward(ctx *kernels.Context) error {
	image, filter := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype)); err != nil {
		return err
	}
	d, err := k.planDepthwise(k.channelsLast(image.Shape()), filter.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, k.inOrder(tensor.Shape{int64(d.batch), int64(d.rows.out), int64(d.cols.out), int64(d.outDepth)}))
	if err != nil || out.Len() == 0 {
		return err
	}
	k.launch(ctx, "depthwise_", image, filter, out, &d)
	return nil
}

func (k *deviceDepthwise) inputGrad(ctx *kernels.Context) error {
	filter, grad := ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := sizesInput(ctx, 0, 4, "input_sizes")
	if err != nil {
		return err
	}
	if done, err := withoutFilter(ctx, k.dtype, filter.Shape(), shape); done {
		return err
	}
	d, err := k.planDepthwise(k.channelsLast(shape), filter.Shape())
	if err != nil {
		return err
	}
	if err := d.checkGradient(k.channelsLast(grad.Shape())); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	k.launch(ctx, "depthwise_input_", grad, filter, out, &d)
	return nil
}

func (k *deviceDepthwise) filterGrad(ctx *kernels.Context) error {
	image, grad := ctx.Input(0), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	shape, err := sizesInput(ctx, 1, 4, "filter_sizes")
	if err != nil {
		return err
	}
	if done, err := withoutFilter(ctx, k.dtype, shape, shape); done {
		return err
	}
	d, err := k.planDepthwise(k.channelsLast(image.Shape()), shape)
	if err != nil {
		return err
	}
	if err := d.checkGradient(k.channelsLast(grad.Shape())); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	dev := kernels.AcceleratorOf(ctx.Device)
	if grad.Len() == 0 {
		dev.Fill(ctx, out, 0)
		return nil
	}
	c := newColumnReduction(dev, d.batch*d.rows.out*d.cols.out, d.outDepth, 1, false)
	sums, err := ctx.Device.Memory().New(gemm.SumType(k.dtype), tensor.Shape{int64(c.parts), int64(out.Len())})
	if err != nil {
		return err
	}
	defer sums.Release()
	c.launch(ctx, dev, "depthwise_filter_"+launch.Suffixes[k.dtype], d.rows.size*d.cols.size,
		slices.Concat([]uint64{image.Address(), grad.Address(), sums.Address()}, c.words(), k.words(&d)))
	gemm.AddSplits(ctx, out, sums.Address(), c.parts)
	return nil
}
