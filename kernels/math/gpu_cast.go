package math

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/launch"
)

// castNumbers lists the types that can be cast from and to. The index of a type is its number in the CUDA sources.
var castNumbers = []tensor.DType{
	tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
	tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Bool, tensor.Complex64, tensor.Complex128,
}

// castFunctions lists the casts that have functions of their own.
var castFunctions = map[tensor.DType][]tensor.DType{
	tensor.Float32: {tensor.Float16, tensor.BFloat16, tensor.Float64, tensor.Int32, tensor.Int64, tensor.Bool},
	tensor.Float64: {tensor.Float32}, tensor.Float16: {tensor.Float32}, tensor.BFloat16: {tensor.Float32},
	tensor.Bool:  {tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int32},
	tensor.Uint8: {tensor.Float32, tensor.Float16, tensor.BFloat16},
	tensor.Int32: {tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int64},
	tensor.Int64: {tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Int32},
}

// gpuCast is a cast to another type.
type gpuCast struct {
	elementwise.GPUKernel
	// more holds, for functions that cast to all types, the number of the target type and the count of bits to clear first.
	more []uint64
}

func (k *gpuCast) Compute(ctx *kernels.Context) error {
	a := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.In); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.Out, a.Shape())
	if err != nil || a.Len() == 0 {
		return err
	}
	pack := 1
	if k.more == nil {
		pack = castPack(k.In.Size(), k.Out.Size())
	}
	dev := kernels.AcceleratorOf(ctx.Device)
	args := append([]uint64{a.Address(), out.Address(), uint64(a.Len())}, k.more...)
	dev.Launch(ctx, launch.PerElement(dev, k.Function, (a.Len()+pack-1)/pack, args...))
	return nil
}

// castPack returns the number of elements that a thread casts at once.
func castPack(from, to int) int {
	switch most := max(from, to); {
	case most > 4:
		return 2
	case most > 2:
		return 4
	}
	return 8
}
