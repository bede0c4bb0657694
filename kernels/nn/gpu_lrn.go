package nn

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// deviceLRN is LRN or its gradient on an accelerator. It uses the functions in lrn.cu.
type deviceLRN struct {
	lrn
	dtype tensor.DType
}

func (k *deviceLRN) words(depth int) []uint64 {
	return []uint64{uint64(depth), uint64(k.radius), kernels.Double(float64(k.bias)), kernels.Double(float64(k.alpha)), kernels.Double(float64(k.beta))}
}

func (k *deviceLRN) forward(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), checkLRN(in.Shape())); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	a, n := kernels.AcceleratorOf(ctx.Device), out.Len()
	a.Launch(ctx, launch.PerElement(a, "lrn_"+launch.Suffixes[k.dtype], n, append([]uint64{in.Address(), out.Address(), uint64(n)}, k.words(in.Dim(3))...)...))
	return nil
}

func (k *deviceLRN) backward(ctx *kernels.Context) error {
	grad, in, out := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype), checkLRNGrad(grad.Shape(), in.Shape(), out.Shape())); err != nil {
		return err
	}
	result, err := ctx.Allocate(0, k.dtype, grad.Shape())
	if err != nil || result.Len() == 0 {
		return err
	}
	norms, err := ctx.Device.Memory().New(tensor.Float32, grad.Shape())
	if err != nil {
		return err
	}
	defer norms.Release()
	a, n, words := kernels.AcceleratorOf(ctx.Device), result.Len(), k.words(in.Dim(3))
	a.Launch(ctx, launch.PerElement(a, "lrn_norm_"+launch.Suffixes[k.dtype], n, append([]uint64{in.Address(), norms.Address(), uint64(n)}, words...)...))
	a.Launch(ctx, launch.PerElement(a, "lrn_grad_"+launch.Suffixes[k.dtype], n,
		slices.Concat([]uint64{grad.Address(), in.Address(), out.Address(), norms.Address(), result.Address(), uint64(n)}, words)...))
	return nil
}
