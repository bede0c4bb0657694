package layout

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// OneOf returns the scalar 1 of a type.
func OneOf(d tensor.DType) (*tensor.Tensor, error) {
	if one, ok := ones[d]; ok {
		return one(), nil
	}
	// Integers are little-endian, so the first byte is 1 and the others are 0.
	if !d.IsInteger() && d != tensor.Bool {
		return nil, status.Unimplementedf("Type %v has no value 1", d)
	}
	t, err := tensor.Zeros(tensor.Host, d, nil)
	if err == nil {
		t.Data()[0] = 1
	}
	return t, err
}

// ones make the scalar 1 of the non-integer types.
var ones = map[tensor.DType]func() *tensor.Tensor{
	tensor.Float32: scalarOf(float32(1)), tensor.Float64: scalarOf(float64(1)),
	tensor.Float16: scalarOf(element.ToFloat16(1)), tensor.BFloat16: scalarOf(element.ToBFloat16(1)),
	tensor.Complex64: scalarOf(complex64(1)), tensor.Complex128: scalarOf(complex128(1)),
}

func scalarOf[T tensor.Elem](v T) func() *tensor.Tensor {
	return func() *tensor.Tensor { return tensor.Scalar(element.DTypeOf[T](), v) }
}

// MemoryFor returns the memory for state of a type on the device. As the device's rows declare, int32 is in host memory.
func MemoryFor(ctx *kernels.Context, dtype tensor.DType) tensor.Memory {
	if dtype == tensor.Int32 || dtype.Size() == 0 {
		return ctx.Device.Pool()
	}
	return ctx.Device.Memory()
}

// Zeros allocates a tensor of zeros.
func Zeros(ctx *kernels.Context, memory tensor.Memory, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	t, err := memory.New(dtype, shape)
	if err == nil {
		Zero(ctx, t)
	}
	return t, err
}

// CopyAll copies all elements, of fixed size, between tensors in the same memory.
func CopyAll(ctx *kernels.Context, dst, src *tensor.Tensor) {
	switch {
	case src.OnHost():
		tensor.Copy(dst.Data(), src.Data())
	case src.Len() > 0:
		kernels.AcceleratorOf(ctx.Device).Copy(ctx, dst, src)
	}
}

// VectorOf returns a new vector of int64 with a copy of v.
func VectorOf(pool *tensor.Pool, v []int64) (*tensor.Tensor, error) {
	t, err := tensor.New(pool, tensor.Int64, tensor.Shape{int64(len(v))})
	if err == nil {
		copy(tensor.Of[int64](t), v)
	}
	return t, err
}
