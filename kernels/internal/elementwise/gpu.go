package elementwise

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// GPUKernel holds the device function of a kernel and its element types.
type GPUKernel struct {
	Function string
	In, Out  tensor.DType
}

// DeviceFunction returns the name of the device function, for tests.
func (k *GPUKernel) DeviceFunction() string { return k.Function }

// Over launches the function for n elements; a thread processes several at once. It launches nothing if n is 0.
func (k *GPUKernel) Over(ctx *kernels.Context, n int, args ...uint64) {
	if n > 0 {
		pack := launch.PackOf(k.In)
		a := kernels.AcceleratorOf(ctx.Device)
		a.Launch(ctx, launch.PerElement(a, k.Function, (n+pack-1)/pack, args...))
	}
}

// RowOnGPU returns the row of a kernel without attributes.
func RowOnGPU(op, attr string, dtype tensor.DType, k kernels.Kernel) kernels.Def {
	return kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{attr: {dtype}}, New: func(*kernels.Construction) (any, error) { return k, nil }}
}

// GPUUnary is a function of one element.
type GPUUnary struct {
	GPUKernel
	More []uint64
}

// Compute implements kernels.Kernel.
func (k *GPUUnary) Compute(ctx *kernels.Context) error {
	a := ctx.Inputs[0].Tensor
	if err := args.CheckType(ctx, 0, k.In); err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.Out, a.Shape())
	if err != nil {
		return err
	}
	k.Over(ctx, a.Len(), append([]uint64{a.Address(), out.Address(), uint64(a.Len())}, k.More...)...)
	return nil
}

// UnaryOnGPU registers a unary op by the name of its device function.
func UnaryOnGPU(table *kernels.Table, op, function string, sets ...[]launch.Type) {
	for _, set := range sets {
		for _, t := range set {
			table.Add(RowOnGPU(op, "T", t.DType, &GPUUnary{GPUKernel{function + "_" + t.Suffix, t.DType, t.DType}, nil}))
		}
	}
}

// TestOnGPU registers a unary op whose result is a bool.
func TestOnGPU(table *kernels.Table, op, function string) {
	for _, t := range launch.Reals {
		table.Add(RowOnGPU(op, "T", t.DType, &GPUUnary{GPUKernel{function + "_" + t.Suffix, t.DType, tensor.Bool}, nil}))
	}
}

// GPUZip is a function of two elements of tensors of the same shape.
type GPUZip struct {
	GPUKernel
	More []uint64
}

// Compute implements kernels.Kernel.
func (k *GPUZip) Compute(ctx *kernels.Context) error {
	a, b := ctx.Inputs[0].Tensor, ctx.Inputs[1].Tensor
	if err := args.FirstError(args.CheckType(ctx, 0, k.In), args.CheckType(ctx, 1, k.In)); err != nil {
		return err
	}
	if !a.Shape().Equal(b.Shape()) {
		return DifferentShapes(ctx, 1, a.Shape(), b.Shape())
	}
	out, err := ctx.ForwardAny(0, k.Out, a.Shape(), 0, 1)
	if err != nil {
		return err
	}
	k.Over(ctx, a.Len(), append([]uint64{a.Address(), b.Address(), out.Address(), uint64(a.Len())}, k.More...)...)
	return nil
}

// GradOnGPU registers the gradient of an elementwise op.
func GradOnGPU(table *kernels.Table, op, function string) {
	for _, t := range launch.Reals {
		table.Add(RowOnGPU(op, "T", t.DType, &GPUZip{GPUKernel{function + "_" + t.Suffix, t.DType, t.DType}, nil}))
	}
}
