package tensor

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// Value is the constraint for the Go types that are elements of tensors; TypeOf returns the dtype of each. Go's int and uint are not among
// them: use int32 or int64, which TensorFlow distinguishes.
type Value interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 |
		float32 | float64 | F16 | BF16 | complex64 | complex128 | string
}

// TypeOf returns the dtype whose elements are of type T.
func TypeOf[T Value]() DType {
	var zero T
	switch any(zero).(type) {
	case float32:
		return Float32
	case float64:
		return Float64
	case F16:
		return Float16
	case BF16:
		return BFloat16
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case complex64:
		return Complex64
	case complex128:
		return Complex128
	case bool:
		return Bool
	default: // the constraint leaves no other
		return String
	}
}

// elements returns a tensor's elements without a copy; the caller has checked their type.
func elements[T Value](t *Tensor) []T {
	if s, ok := t.elems.([]string); ok {
		return any(s).([]T)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.Data()))), t.n)
}

// Values returns the elements of a tensor as a slice, without a copy. It is INVALID_ARGUMENT if they are not of type T. The slice is valid
// as long as the caller's reference, and must not be written to.
func Values[T Value](t *Tensor) ([]T, error) {
	if want := TypeOf[T](); t.dtype != want {
		return nil, status.InvalidArgumentf("A tensor of type %v was asked for elements of type %v", t.dtype, want)
	}
	return elements[T](t), nil
}

// FromValues returns a tensor with a copy of the values, in row-major order. Without sizes, it is a vector of all values; for a scalar,
// use FromScalar.
func FromValues[T Value](values []T, sizes ...int) (*Tensor, error) {
	var room [inlineRank]int64
	t, err := New(Host, TypeOf[T](), shapeFor(room[:0], len(values), sizes))
	if err != nil {
		return nil, err
	}
	if err := t.fills(len(values)); err != nil {
		return nil, err
	}
	Copy(elements[T](t), values)
	return t, nil
}

// FromScalar returns a tensor of rank 0.
func FromScalar[T Value](v T) *Tensor {
	if s, ok := any(v).(string); ok {
		t := header(String, nil, 1)
		t.elems = []string{s}
		return t
	}
	t := header(TypeOf[T](), nil, 1)
	t.data = t.inline[:unsafe.Sizeof(v)]
	elements[T](t)[0] = v
	return t
}

// Wrap returns a tensor over a slice, without a copy; without sizes, it is a vector. The tensor owns the slice's memory until done is
// called: once, on any goroutine, after the last release of the tensor and of any others that share its memory. Until then nothing else
// may write to the memory, but a step that holds the only reference may. If done is nil, the memory never returns to the caller. On an
// error, the caller keeps the memory.
func Wrap[T Value](values []T, done func(), sizes ...int) (*Tensor, error) {
	var room [inlineRank]int64
	shape := shapeFor(room[:0], len(values), sizes)
	n, err := shape.NumElements()
	if err != nil {
		return nil, err
	}
	if n != int64(len(values)) {
		return nil, status.InvalidArgumentf("%d values do not fill the shape %v", len(values), shape)
	}
	t := header(TypeOf[T](), shape, len(values))
	if s, ok := any(values).([]string); ok {
		t.elems, t.buf = s, WrapBytes(nil, done)
		return t, nil
	}
	t.data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*t.dtype.Size())
	t.buf = WrapBytes(t.data, done)
	return t, nil
}

// shapeFor appends the sizes to dst, or the shape of a vector if there are none.
func shapeFor(dst Shape, values int, sizes []int) Shape {
	if len(sizes) == 0 {
		return append(dst, int64(values))
	}
	for _, s := range sizes {
		dst = append(dst, int64(s))
	}
	return dst
}

// fills releases t and returns an error unless t has exactly that number of values.
func (t *Tensor) fills(values int) error {
	if t.n == values {
		return nil
	}
	defer t.Release()
	return status.InvalidArgumentf("%d values do not fill the shape %v", values, t.shape)
}
