package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// deviceBatchNorm is FusedBatchNorm, a later version or a gradient on an accelerator. It uses the functions in batchnorm.cu.
type deviceBatchNorm struct {
	batchNorm
	dtype tensor.DType
}

// reduction returns the reduction of images to their channels.
func (k *deviceBatchNorm) reduction(a kernels.Accelerator, x *tensor.Tensor, channels int) columnReduction {
	spatial := 1
	if k.channelsFirst {
		spatial = x.Shape()[2:].Elements()
	}
	return newColumnReduction(a, x.Len()/max(1, channels), channels, spatial, k.channelsFirst)
}

// images returns the parameters of functions that work on each element of x, whose channels c reduces to.
func (k *deviceBatchNorm) images(x *tensor.Tensor, c *columnReduction) []uint64 {
	return []uint64{uint64(x.Len()), uint64(c.columns), uint64(c.spatial), gemm.Flag(k.channelsFirst)}
}

// perBlock allocates memory for the floats that each block of a reduction produces per channel.
func perBlock(ctx *kernels.Context, c *columnReduction, floats int) (*tensor.Tensor, error) {
	return ctx.Device.Memory().New(tensor.Float32, tensor.Shape{int64(c.parts), int64(c.columns), int64(floats)})
}

func (k *deviceBatchNorm) forward(ctx *kernels.Context) error {
	channels, err := k.checkForward(ctx, k.dtype, k.channelsFirst)
	if err != nil {
		return err
	}
	x := ctx.Input(0)
	y, err := ctx.Allocate(0, k.dtype, x.Shape())
	if err != nil {
		return err
	}
	a := kernels.AcceleratorOf(ctx.Device)
	var stats [4]*tensor.Tensor // mean, variance and the statistics saved for the gradient
	for i := range stats {
		if stats[i], err = ctx.Allocate(i+1, tensor.Float32, tensor.Shape{int64(channels)}); err != nil {
			return err
		}
	}
	if k.outputs > 5 {
		reserve, err := ctx.Allocate(5, tensor.Float32, k.reserve())
		if err != nil {
			return err
		}
		if reserve.Len() > 0 {
			a.Fill(ctx, reserve, 0)
		}
	}
	if channels == 0 {
		return nil
	}
	c := k.reduction(a, x, channels)
	mean, variance := stats[2], stats[3]
	if k.training || x.Len() == 0 {
		if err := k.measure(ctx, a, x, &c, stats); err != nil {
			return err
		}
	} else {
		for i := range 2 {
			a.Copy(ctx, stats[i], ctx.Input(3+i))
			a.Fill(ctx, stats[2+i], 0) // the saved statistics are for the gradient, which inference does not have
		}
		mean, variance = stats[0], stats[1]
	}
	if x.Len() == 0 {
		return nil
	}
	a.Launch(ctx, launch.PerElement(a, "batch_norm_apply_"+launch.Suffixes[k.dtype], x.Len(), slices.Concat([]uint64{x.Address(), y.Address()}, k.images(x, &c),
		[]uint64{ctx.Input(1).Address(), ctx.Input(2).Address(), mean.Address(), variance.Address(), kernels.Double(float64(k.epsilon))})...))
	return nil
}

// measure computes the batch's statistics. Without elements they are NaN.
func (k *deviceBatchNorm) measure(ctx *kernels.Context, a kernels.Accelerator, x *tensor.Tensor, c *columnReduction, stats [4]*tensor.Tensor) error {
	const moments = 3
	partial, err := perBlock(ctx, c, moments)
	if err != nil {
		return err
	}
	defer partial.Release()
	if x.Len() > 0 {
		c.launch(ctx, a, "batch_norm_moments_"+launch.Suffixes[k.dtype], 1, append([]uint64{x.Address(), partial.Address()}, c.words()...))
	}
	a.Launch(ctx, launch.PerElement(a, "batch_norm_finish", c.columns, partial.Address(), uint64(c.parts), uint64(c.columns), ctx.Input(3).Address(), ctx.Input(4).Address(),
		kernels.Double(float64(k.average)), stats[0].Address(), stats[1].Address(), stats[2].Address(), stats[3].Address()))
	return nil
}

func (k *deviceBatchNorm) backward(ctx *kernels.Context) error {
	channels, err := checkBackward(ctx, k.dtype, k.channelsFirst)
	if err != nil {
		return err
	}
	dy, x := ctx.Input(0), ctx.Input(1)
	shapes := []tensor.Shape{x.Shape(), {int64(channels)}, {int64(channels)}, {0}, {0}}
	var out [5]*tensor.Tensor
	for i, s := range shapes {
		dtype := tensor.Float32
		if i == 0 {
			dtype = k.dtype
		}
		if out[i], err = ctx.Allocate(i, dtype, s); err != nil {
			return err
		}
	}
	a := kernels.AcceleratorOf(ctx.Device)
	if channels == 0 {
		return nil
	}
	if x.Len() == 0 {
		a.Fill(ctx, out[1], 0)
		a.Fill(ctx, out[2], 0)
		return nil
	}
	c := k.reduction(a, x, channels)
	const slopes = 2
	partial, err := perBlock(ctx, &c, slopes)
	if err != nil {
		return err
	}
	defer partial.Release()
	perRow, err := ctx.Device.Memory().New(tensor.Float32, tensor.Shape{int64(channels), slopes})
	if err != nil {
		return err
	}
	defer perRow.Release()
	scale, mean, variance := ctx.Input(2).Address(), ctx.Input(3).Address(), ctx.Input(4).Address()
	suffix, epsilon := launch.Suffixes[k.dtype], kernels.Double(float64(k.epsilon))
	c.launch(ctx, a, "batch_norm_slopes_"+suffix, 1, append([]uint64{dy.Address(), x.Address(), mean, partial.Address()}, c.words()...))
	a.Launch(ctx, launch.PerElement(a, "batch_norm_grad_finish", channels, partial.Address(), uint64(c.parts), uint64(channels), uint64(c.rows), gemm.Flag(k.training),
		variance, epsilon, out[1].Address(), out[2].Address(), perRow.Address()))
	a.Launch(ctx, launch.PerElement(a, "batch_norm_grad_"+suffix, x.Len(), slices.Concat([]uint64{dy.Address(), x.Address(), out[0].Address()}, k.images(x, &c),
		[]uint64{scale, mean, variance, epsilon, perRow.Address()})...))
	return nil
}
