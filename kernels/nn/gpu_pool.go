package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/gemm"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// devicePool is a pooling op on an accelerator. It uses the functions in pool.cu.
type devicePool struct {
	pooling
	dtype      tensor.DType
	fromInputs bool // whether the window comes from inputs
}

// words returns the parameters that hold a pooling's sizes.
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

// deviceArgmaxPool is MaxPoolWithArgmax or its gradient on an accelerator, for images whose channels come last.
type deviceArgmaxPool struct {
	argmaxPooling
	dtype, index tensor.DType
}

func (k *deviceArgmaxPool) forward(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	p, err := k.planArgmax(image)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.outShape())
	if err != nil {
		return err
	}
	argmax, err := ctx.Allocate(1, k.index, p.outShape())
	if err != nil || out.Len() == 0 {
		return err
	}
	a := kernels.AcceleratorOf(ctx.Device)
	a.Launch(ctx, launch.PerElement(a, "max_pool_argmax_"+launch.Suffixes[k.dtype], out.Len(), slices.Concat(
		[]uint64{image.Address(), out.Address(), argmax.Address(), uint64(out.Len())},
		gridWords(p.depth, p.rows.in, p.cols.in, false), gridWords(p.depth, p.rows.out, p.cols.out, false), p.rows.words(), p.cols.words(),
		[]uint64{gemm.Flag(k.index == tensor.Int32), gemm.Flag(k.batches)})...))
	return nil
}

// backward ignores indices outside the image.
func (k *deviceArgmaxPool) backward(ctx *kernels.Context) error {
	image, grad, argmax := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, tensor.Int64)); err != nil {
		return err
	}
	p, err := k.plan(image.Shape())
	if err != nil {
		return err
	}
	if err := args.FirstError(expectShape("grad", p.outShape(), grad.Shape()), expectShape("argmax", p.outShape(), argmax.Shape())); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, image.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	a := kernels.AcceleratorOf(ctx.Device)
	a.Fill(ctx, out, 0)
	if grad.Len() == 0 {
		return nil
	}
	size, most := image.Len()/p.batch, image.Len()/p.batch
	if k.batches {
		size, most = 0, image.Len()
	}
	a.Launch(ctx, launch.PerElement(a, "max_pool_argmax_grad_"+launch.Suffixes[k.dtype], grad.Len(), grad.Address(), argmax.Address(), out.Address(),
		uint64(grad.Len()), uint64(grad.Len()/p.batch), uint64(size), uint64(most)))
	return nil
}

// onGPU is ExtractImagePatches on an accelerator.
func (k *patchesKernel) onGPU(ctx *kernels.Context) error {
	in := ctx.Input(0)
	windows, shape, err := k.plan(in)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, in.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	a := kernels.AcceleratorOf(ctx.Device)
	if in.Len() == 0 {
		a.Fill(ctx, out, 0)
		return nil
	}
	depth, size := in.Dim(3), in.DType().Size()
	wide := launch.Widest(size, in.Address(), out.Address(), uint64(depth*size))
	count := out.DataSize() / wide
	rows, cols := windows[1], windows[2]
	a.Launch(ctx, launch.PerElement(a, launch.CellFunction("patches", wide), count, slices.Concat([]uint64{out.Address(), in.Address()},
		gridWords(depth*size/wide, rows.in, cols.in, false), rows.words(), cols.words(), []uint64{uint64(count)})...))
	return nil
}
