package element

import (
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// OneIf returns 1 if b is true, else 0.
func OneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The elements of the dtypes float16 and bfloat16. Ops compute on them in float32 and round the result to nearest even, as TensorFlow's CPU
// kernels do.
type (
	// Float16 has 5 bits of exponent and 10 of mantissa.
	Float16 uint16
	// BFloat16 is the upper half of a float32.
	BFloat16 uint16
)

// Element type constraints of slice functions.
type (
	// SignedInt is a signed integer of Go.
	SignedInt   interface{ int8 | int16 | int32 | int64 }
	unsignedInt interface {
		uint8 | uint16 | uint32 | uint64
	}
	// Integer is a signed or unsigned integer.
	Integer interface{ SignedInt | unsignedInt }
	// Floating is a float that Go computes with directly.
	Floating interface{ float32 | float64 }
	// ComplexNum is a complex number.
	ComplexNum interface{ complex64 | complex128 }
	// Ordered is a number that can be compared with <.
	Ordered interface{ Integer | Floating }
	// Numeric is a number that Go computes with directly.
	Numeric interface {
		Integer | Floating | ComplexNum
	}
	// HalfFloat is a 16-bit float, computed with as a float32.
	HalfFloat interface{ Float16 | BFloat16 }
)

// DTypeOf returns the dtype whose elements have type T, or Invalid if there is none.
func DTypeOf[T any]() tensor.DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return tensor.Float32
	case float64:
		return tensor.Float64
	case Float16:
		return tensor.Float16
	case BFloat16:
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

// SizeOf returns the distance in bytes between elements in memory, including strings.
func SizeOf(t tensor.DType) int {
	if t == tensor.String {
		return int(unsafe.Sizeof(""))
	}
	return t.Size()
}

// Elements returns a pointer to a tensor's first element. The drivers of elementwise ops, which know sizes but not types, pass elements to
// slice functions in this form.
func Elements(t *tensor.Tensor) unsafe.Pointer {
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

// Float returns the value of h.
func (h Float16) Float() float32 { return tensor.F16(h).Float32() }

// ToFloat16 rounds to the nearest half, ties to even; values beyond 65504 become infinite.
func ToFloat16(f float32) Float16 { return Float16(tensor.ToF16(f)) }

// Float returns the value of h.
func (h BFloat16) Float() float32 { return tensor.BF16(h).Float32() }

// ToBFloat16 rounds to the nearest bfloat16, ties to even.
func ToBFloat16(f float32) BFloat16 { return BFloat16(tensor.ToBF16(f)) }

// Widen sets dst to the values of src.
func Widen[H HalfFloat](dst []float32, src []H) {
	dst = dst[:len(src)]
	switch src := any(src).(type) {
	case []Float16:
		for i, v := range src {
			dst[i] = v.Float()
		}
	case []BFloat16:
		simd.WidenBFloat16(dst, Bits(src))
	}
}

// Narrow sets dst to the values of src, rounded.
func Narrow[H HalfFloat](dst []H, src []float32) {
	src = src[:len(dst)]
	switch dst := any(dst).(type) {
	case []Float16:
		for i, v := range src {
			dst[i] = ToFloat16(v)
		}
	case []BFloat16:
		simd.NarrowBFloat16(Bits(dst), src)
	}
}

// Bits returns the bits of the numbers; the result shares their memory.
func Bits(a []BFloat16) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(a))), len(a))
}

// HalfBlock is the number of halves widened at once: as float32, they fit the first-level cache.
const HalfBlock = 1024

// BlockLen is the number of elements that a driver spreads or gathers at once: at 8 bytes each, they leave room for other operands in the
// first-level cache.
const BlockLen = 1024

// Minimum numbers of elements per part when an elementwise op runs on several cores. A part takes some 10 µs.
const (
	CheapGrain  = 1 << 15
	CostlyGrain = 1 << 12
)

// ViewOf returns the elements of a tensor whose dtype is that of T, including strings.
func ViewOf[T any](t *tensor.Tensor) []T {
	return unsafe.Slice((*T)(Elements(t)), t.Len())
}

// Scratch returns working memory for n elements from the device's pool, and a function that releases it.
func Scratch[T any](dev kernels.Device, n int) ([]T, func(), error) {
	l := leases.Get().(*lease)
	l.shape[0] = int64(n)
	t, err := tensor.New(dev.Pool(), DTypeOf[T](), l.shape[:])
	if err != nil {
		leases.Put(l)
		return nil, nil, err
	}
	l.tensor = t
	return ViewOf[T](t), l.end, nil
}

// lease is working memory held by a kernel. Leases are reused, so taking such memory makes no garbage.
type lease struct {
	tensor *tensor.Tensor
	shape  [1]int64
	end    func()
}

var leases sync.Pool

func init() {
	leases.New = func() any {
		l := new(lease)
		l.end = func() {
			t := l.tensor
			l.tensor = nil
			t.Release()
			leases.Put(l)
		}
		return l
	}
}

// WithScratch runs body in parallel on parts of [0,n), each with working memory for size elements. The error is from allocating the memory,
// or the step's if it has ended.
func WithScratch[T any](ctx *kernels.Context, n, grain, size int, body func(work []T, lo, hi int)) error {
	var mu sync.Mutex
	var failed error
	ctx.Parallel(n, grain, func(lo, hi int) {
		work, release, err := Scratch[T](ctx.Device, size)
		if err != nil {
			mu.Lock()
			failed = err
			mu.Unlock()
			return
		}
		defer release()
		body(work, lo, hi)
	})
	if failed == nil {
		failed = ctx.Ended()
	}
	return failed
}

// Cells returns memory as a slice of elements. The memory must be aligned for them.
func Cells[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
