package kernels

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

// float16 and bfloat16 are elements of the dtypes of these names. Ops compute on them by way of
// float32, rounded to nearest even at the end, as TensorFlow's CPU kernels do.
type (
	float16  uint16
	bfloat16 uint16
)

// The sets of element types that slice functions are written for.
type (
	signedInt   interface{ int8 | int16 | int32 | int64 }
	unsignedInt interface {
		uint8 | uint16 | uint32 | uint64
	}
	integer    interface{ signedInt | unsignedInt }
	floating   interface{ float32 | float64 }
	complexNum interface{ complex64 | complex128 }
	ordered    interface{ integer | floating }
	numeric    interface {
		integer | floating | complexNum
	}
	halfFloat interface{ float16 | bfloat16 }
)

// dtypeOf is the dtype whose elements are T, Invalid for a type that is none's.
func dtypeOf[T any]() tensor.DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return tensor.Float32
	case float64:
		return tensor.Float64
	case float16:
		return tensor.Float16
	case bfloat16:
		return tensor.BFloat16
	case int8:
		return tensor.Int8
	case int16:
		return tensor.Int16
	case int32:
		return tensor.Int32
	case int64:
		return tensor.Int64
	case uint8:
		return tensor.Uint8
	case uint16:
		return tensor.Uint16
	case uint32:
		return tensor.Uint32
	case uint64:
		return tensor.Uint64
	case complex64:
		return tensor.Complex64
	case complex128:
		return tensor.Complex128
	case bool:
		return tensor.Bool
	case string:
		return tensor.String
	}
	return tensor.Invalid
}

// elemSize is the bytes between elements in memory, of strings' too.
func elemSize(t tensor.DType) int {
	if t == tensor.String {
		return int(unsafe.Sizeof(""))
	}
	return t.Size()
}

// elements is where a tensor's elements start. It is the form in which the drivers of
// elementwise ops, which know sizes but no types, hand elements to slice functions.
func elements(t *tensor.Tensor) unsafe.Pointer {
	switch t.DType() {
	case tensor.String:
		return unsafe.Pointer(unsafe.SliceData(t.Strings()))
	case tensor.Resource:
		return unsafe.Pointer(unsafe.SliceData(t.Handles()))
	case tensor.Variant:
		return unsafe.Pointer(unsafe.SliceData(t.Variants()))
	}
	return unsafe.Pointer(unsafe.SliceData(t.Data()))
}

// checkType refuses a tensor whose dtype is not the one that the kernel was chosen for.
func checkType(ctx *Context, i int, want tensor.DType) error {
	if have := ctx.Inputs[i].Tensor.DType(); have != want {
		return status.InvalidArgumentf("Input %d of %s is of type %v, but %v is expected", i, ctx.Node.Op, have, want)
	}
	return nil
}

// float gives the value of a half.
func (h float16) float() float32 { return tensor.F16(h).Float32() }

// toFloat16 rounds to the nearest half, ties to even; values beyond 65504 become infinite.
func toFloat16(f float32) float16 { return float16(tensor.ToF16(f)) }

// float gives the value of a bfloat16.
func (h bfloat16) float() float32 { return tensor.BF16(h).Float32() }

// toBFloat16 rounds to the nearest bfloat16, ties to even.
func toBFloat16(f float32) bfloat16 { return bfloat16(tensor.ToBF16(f)) }

// widen sets dst to the values of src.
func widen[H halfFloat](dst []float32, src []H) {
	dst = dst[:len(src)]
	switch src := any(src).(type) {
	case []float16:
		for i, v := range src {
			dst[i] = v.float()
		}
	case []bfloat16:
		simd.WidenBFloat16(dst, bfloatBits(src))
	}
}

// narrow sets dst to the values of src, rounded.
func narrow[H halfFloat](dst []H, src []float32) {
	src = src[:len(dst)]
	switch dst := any(dst).(type) {
	case []float16:
		for i, v := range src {
			dst[i] = toFloat16(v)
		}
	case []bfloat16:
		simd.NarrowBFloat16(bfloatBits(dst), src)
	}
}

func bfloatBits(a []bfloat16) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(a))), len(a))
}

// halfBlock is how many halves are widened at a time: their float32 fit the first-level cache.
const halfBlock = 1024
