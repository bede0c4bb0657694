package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// deviceLRN is LRN or its gradient on an accelerator, by the functions in lrn.cu.
type deviceLRN struct {
	lrn
	dtype tensor.DType
}

func (k *deviceLRN) words(depth int) []uint64 {
	return []uint64{uint64(depth), uint64(k.radius), Double(float64(k.bias)), Double(float64(k.alpha)), Double(float64(k.beta))}
}

func (k *deviceLRN) forward(ctx *Context) error {
	in := ctx.Input(0)
	if err := firstError(checkType(ctx, 0, k.dtype), checkLRN(in.Shape())); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	a, n := accelerator(ctx.Device), out.Len()
	a.Launch(ctx, elementwise(a, "lrn_"+suffixes[k.dtype], n, append([]uint64{in.Address(), out.Address(), uint64(n)}, k.words(in.Dim(3))...)...))
	return nil
}

func (k *deviceLRN) backward(ctx *Context) error {
	grad, in, out := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := firstError(checkType(ctx, 0, k.dtype), checkType(ctx, 1, k.dtype), checkType(ctx, 2, k.dtype), checkLRNGrad(grad.Shape(), in.Shape(), out.Shape())); err != nil {
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
	a, n, words := accelerator(ctx.Device), result.Len(), k.words(in.Dim(3))
	a.Launch(ctx, elementwise(a, "lrn_norm_"+suffixes[k.dtype], n, append([]uint64{in.Address(), norms.Address(), uint64(n)}, words...)...))
	a.Launch(ctx, elementwise(a, "lrn_grad_"+suffixes[k.dtype], n,
		slices.Concat([]uint64{grad.Address(), in.Address(), out.Address(), norms.Address(), result.Address(), uint64(n)}, words)...))
	return nil
}

func init() {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
		row := func(op string, run func(*deviceLRN, *Context) error) {
			Register(Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}}, Expensive: true, New: func(c *Construction) (any, error) {
				l, err := newLRN(c)
				k := &deviceLRN{l, dtype}
				return Func(func(ctx *Context) error { return run(k, ctx) }), err
			}})
		}
		row("LRN", (*deviceLRN).forward)
		row("LRNGrad", (*deviceLRN).backward)
	}
}
