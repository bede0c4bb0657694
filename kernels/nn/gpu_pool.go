package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// devicePool is a pooling op on an accelerator, by the functions in pool.cu.
type devicePool struct {
	pooling
	dtype      tensor.DType
	fromInputs bool // whether the window comes as inputs
}

// words are the parameters of a pooling's sizes.
func (k *devicePool) words(p *pool) []uint64 {
	return slices.Concat(gridWords(p.depth, p.rows.in, p.cols.in, k.channelsFirst), gridWords(p.depth/p.over, p.rows.out, p.cols.out, k.channelsFirst), p.rows.words(), p.cols.words())
}

func (k *devicePool) launch(ctx *kernels.Context, function string, out *tensor.Tensor, args ...uint64) {
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, function+"_"+launch.Suffixes[k.dtype], out.Len(), args...))
}

func (k *devicePool) max(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	attrs := *k
	if k.fromInputs {
		if err := attrs.windowInputs(ctx, 1); err != nil {
			return err
		}
	}
	p, err := attrs.plan(k.channelsLast(image.Shape()))
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, k.inOrder(p.outShape()))
	if err != nil || out.Len() == 0 {
		return err
	}
	k.launch(ctx, "max_pool", out, slices.Concat([]uint64{image.Address(), out.Address(), uint64(out.Len())}, k.words(&p), []uint64{uint64(p.over)})...)
	return nil
}

func (k *devicePool) maxGrad(ctx *kernels.Context) error {
	image, result, grad := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	attrs := *k
	if k.fromInputs {
		if err := attrs.windowInputs(ctx, 3); err != nil {
			return err
		}
	}
	p, err := attrs.planGrad(k.channelsLast(image.Shape()), k.channelsLast(result.Shape()), k.channelsLast(grad.Shape()))
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, image.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	k.launch(ctx, "max_pool_grad", out, append([]uint64{image.Address(), grad.Address(), out.Address(), uint64(out.Len())}, k.words(&p)...)...)
	return nil
}

func (k *devicePool) avg(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	p, err := k.planAvg(k.channelsLast(image.Shape()))
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, k.inOrder(p.outShape()))
	if err != nil || out.Len() == 0 {
		return err
	}
	k.launch(ctx, "avg_pool", out, append([]uint64{image.Address(), out.Address(), uint64(out.Len())}, k.words(&p)...)...)
	return nil
}

func (k *devicePool) avgGrad(ctx *kernels.Context) error {
	grad := ctx.Input(1)
	if err := args.CheckType(ctx, 1, k.dtype); err != nil {
		return err
	}
	if t := ctx.Input(0); t.Rank() != 1 || t.Len() != 4 {
		return status.InvalidArgumentf("out_backprop must be 1-dimensional and 4 elements")
	}
	shape, err := sizesInput(ctx, 0, 4, "orig_input_shape")
	if err != nil {
		return err
	}
	p, err := k.planAvg(k.channelsLast(shape))
	if err != nil {
		return err
	}
	if want := p.outShape(); !k.channelsLast(grad.Shape()).Equal(want) {
		return status.InvalidArgumentf("Expected grad shape to be %v, but got %v", want, grad.Shape())
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	k.launch(ctx, "avg_pool_grad", out, append([]uint64{grad.Address(), out.Address(), uint64(out.Len())}, k.words(&p)...)...)
	return nil
}
