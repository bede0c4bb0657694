package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// packOf is the elements that a thread of an elementwise function takes at once: PACK in the sources.
func packOf(d tensor.DType) int {
	switch d {
	case tensor.Float32, tensor.Float16, tensor.BFloat16:
		return 4
	case tensor.Bool:
		return 8
	}
	return 1
}

// gpuKernel names the device function of a kernel and its element types.
type gpuKernel struct {
	function string
	in, out  tensor.DType
}

// Function names the device function, for tests that look for it.
func (k *gpuKernel) Function() string { return k.function }

// over launches the function for n elements, of which a thread takes several at once. There is no launch
// for none.
func (k *gpuKernel) over(ctx *Context, n int, args ...uint64) {
	if n > 0 {
		pack := packOf(k.in)
		a := accelerator(ctx.Device)
		a.Launch(ctx, elementwise(a, k.function, (n+pack-1)/pack, args...))
	}
}

// gpuRow is the row of a kernel without attributes.
func gpuRow(op, attr string, dtype tensor.DType, k Kernel) Def {
	return Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{attr: {dtype}}, New: func(*Construction) (any, error) { return k, nil }}
}

// gpuUnary is a function of one element.
type gpuUnary struct {
	gpuKernel
	more []uint64
}

func (k *gpuUnary) Compute(ctx *Context) error {
	a := ctx.Inputs[0].Tensor
	if err := checkType(ctx, 0, k.in); err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.out, a.Shape())
	if err != nil {
		return err
	}
	k.over(ctx, a.Len(), append([]uint64{a.Address(), out.Address(), uint64(a.Len())}, k.more...)...)
	return nil
}

// unaryOnGPU registers a unary op by the name of its device function.
func unaryOnGPU(op, function string, sets ...[]gpuType) {
	for _, set := range sets {
		for _, t := range set {
			Register(gpuRow(op, "T", t.dtype, &gpuUnary{gpuKernel{function + "_" + t.suffix, t.dtype, t.dtype}, nil}))
		}
	}
}

// testOnGPU registers a unary op whose result is a bool.
func testOnGPU(op, function string) {
	for _, t := range gpuReals {
		Register(gpuRow(op, "T", t.dtype, &gpuUnary{gpuKernel{function + "_" + t.suffix, t.dtype, tensor.Bool}, nil}))
	}
}

// gpuZip is a function of two elements of tensors of one shape.
type gpuZip struct {
	gpuKernel
	more []uint64
}

func (k *gpuZip) Compute(ctx *Context) error {
	a, b := ctx.Inputs[0].Tensor, ctx.Inputs[1].Tensor
	if err := firstError(checkType(ctx, 0, k.in), checkType(ctx, 1, k.in)); err != nil {
		return err
	}
	if !a.Shape().Equal(b.Shape()) {
		return differentShapes(ctx, 1, a.Shape(), b.Shape())
	}
	out, err := ctx.ForwardAny(0, k.out, a.Shape(), 0, 1)
	if err != nil {
		return err
	}
	k.over(ctx, a.Len(), append([]uint64{a.Address(), b.Address(), out.Address(), uint64(a.Len())}, k.more...)...)
	return nil
}

// gradOnGPU registers the gradient of an elementwise op.
func gradOnGPU(op, function string) {
	for _, t := range gpuReals {
		Register(gpuRow(op, "T", t.dtype, &gpuZip{gpuKernel{function + "_" + t.suffix, t.dtype, t.dtype}, nil}))
	}
}
