package array

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

// launchFill fills out with the element at the device address from. If from is 0, it uses the element whose low bits are low and whose
// remaining bits are zero.
func launchFill(ctx *kernels.Context, out *tensor.Tensor, from, low uint64) {
	suffix, packs := launch.SizeSuffix(out.DType()), map[string]int{"u8": 8, "u16": 4, "u32": 4, "u64": 2, "u128": 1}
	if n := out.Len(); n > 0 {
		a := kernels.AcceleratorOf(ctx.Device)
		a.Launch(ctx, launch.PerElement(a, "fill_"+suffix, (n+packs[suffix]-1)/packs[suffix], from, low, 0, out.Address(), uint64(n)))
	}
}

// gpuFill is Fill. The sizes are on the host, the value is on the device.
func gpuFill(ctx *kernels.Context) error {
	shape, err := fillShape(ctx)
	if err != nil {
		return err
	}
	value := ctx.Input(1)
	out, err := ctx.Allocate(0, value.DType(), shape)
	if err == nil {
		launchFill(ctx, out, value.Address(), 0)
	}
	return err
}

func gpuZerosLike(ctx *kernels.Context) error {
	t := ctx.Input(0)
	out, err := ctx.Forward(0, 0, t.DType(), t.Shape())
	if err == nil && out.Len() > 0 {
		kernels.AcceleratorOf(ctx.Device).Fill(ctx, out, 0)
	}
	return err
}

// gpuOnesLike returns the kernel of OnesLike for a type. A complex 1 is a real 1 followed by zeros.
func gpuOnesLike(d tensor.DType) kernels.Func {
	part := map[tensor.DType]tensor.DType{tensor.Complex64: tensor.Float32, tensor.Complex128: tensor.Float64}[d]
	if part == tensor.Invalid {
		part = d
	}
	one, err := layout.OneOf(part)
	if err != nil {
		panic(err) // unreachable: no row has such a type
	}
	low := uint64(0)
	for i, b := range one.Data() {
		low |= uint64(b) << (8 * i)
	}
	return func(ctx *kernels.Context) error {
		if err := args.CheckType(ctx, 0, d); err != nil {
			return err
		}
		out, err := ctx.Forward(0, 0, d, ctx.Input(0).Shape())
		if err == nil {
			launchFill(ctx, out, 0, low)
		}
		return err
	}
}
