package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// launchFill fills out with the element at from, an address on the device, or with the one whose bits
// are low, followed by zeros, where from is 0.
func launchFill(ctx *Context, out *tensor.Tensor, from, low uint64) {
	suffix, packs := sizeSuffix(out.DType()), map[string]int{"u8": 8, "u16": 4, "u32": 4, "u64": 2, "u128": 1}
	if n := out.Len(); n > 0 {
		a := accelerator(ctx.Device)
		a.Launch(ctx, elementwise(a, "fill_"+suffix, (n+packs[suffix]-1)/packs[suffix], from, low, 0, out.Address(), uint64(n)))
	}
}

// gpuFill is Fill: the sizes are on the host, the value is on the device.
func gpuFill(ctx *Context) error {
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

func gpuZerosLike(ctx *Context) error {
	t := ctx.Input(0)
	out, err := ctx.Forward(0, 0, t.DType(), t.Shape())
	if err == nil && out.Len() > 0 {
		accelerator(ctx.Device).Fill(ctx, out, 0)
	}
	return err
}

// gpuOnesLike is OnesLike for a type. A complex 1 is a real 1, followed by zeros.
func gpuOnesLike(d tensor.DType) Func {
	part := map[tensor.DType]tensor.DType{tensor.Complex64: tensor.Float32, tensor.Complex128: tensor.Float64}[d]
	if part == tensor.Invalid {
		part = d
	}
	one, err := oneOf(part)
	if err != nil {
		panic(err) // of a type that no row is for
	}
	low := uint64(0)
	for i, b := range one.Data() {
		low |= uint64(b) << (8 * i)
	}
	return func(ctx *Context) error {
		if err := checkType(ctx, 0, d); err != nil {
			return err
		}
		out, err := ctx.Forward(0, 0, d, ctx.Input(0).Shape())
		if err == nil {
			launchFill(ctx, out, 0, low)
		}
		return err
	}
}

func init() {
	for d := range suffixes {
		if d == tensor.Int32 { // the host's
			continue
		}
		fill := gpuRow("Fill", "T", d, Func(gpuFill))
		fill.HostInputs = []string{"dims"}
		Register(fill, gpuRow("ZerosLike", "T", d, Func(gpuZerosLike)), gpuRow("OnesLike", "T", d, gpuOnesLike(d)))
	}
}
