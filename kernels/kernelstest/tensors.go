package kernelstest

import (
	"bytes"
	"fmt"
	"math"
	"unsafe"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// S returns a shape.
func S(dims ...int64) tensor.Shape { return tensor.Shape(dims) }

// Of returns a tensor of any dtype with fixed-size elements, from values of a Go type of that size.
func Of[T tensor.Elem](dtype tensor.DType, shape tensor.Shape, values ...T) *tensor.Tensor {
	return must(tensor.FromSlice(dtype, shape, values))
}

// F32 returns a float tensor.
func F32(shape tensor.Shape, values ...float32) *tensor.Tensor {
	return Of(tensor.Float32, shape, values...)
}

// F64 returns a double tensor.
func F64(shape tensor.Shape, values ...float64) *tensor.Tensor {
	return Of(tensor.Float64, shape, values...)
}

// I32 returns an int32 tensor.
func I32(shape tensor.Shape, values ...int32) *tensor.Tensor {
	return Of(tensor.Int32, shape, values...)
}

// I64 returns an int64 tensor.
func I64(shape tensor.Shape, values ...int64) *tensor.Tensor {
	return Of(tensor.Int64, shape, values...)
}

// U8 returns a uint8 tensor.
func U8(shape tensor.Shape, values ...uint8) *tensor.Tensor {
	return Of(tensor.Uint8, shape, values...)
}

// Bool returns a bool tensor.
func Bool(shape tensor.Shape, values ...bool) *tensor.Tensor {
	return Of(tensor.Bool, shape, values...)
}

// Str returns a string tensor.
func Str(shape tensor.Shape, values ...string) *tensor.Tensor {
	return must(tensor.FromStrings(shape, values))
}

// Iota returns a tensor of elements 0, 1, 2 and so on.
func Iota[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](dtype tensor.DType, shape tensor.Shape) *tensor.Tensor {
	t := must(tensor.New(tensor.Host, dtype, shape))
	for i := range tensor.Of[T](t) {
		tensor.Of[T](t)[i] = T(i)
	}
	return t
}

func must(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return t
}

// Diff describes how got differs from want, or returns "" if it does not. Floating-point elements may differ by tolerance times the larger
// of 1 and the expected magnitude; NaN equals NaN.
func Diff(got, want *tensor.Tensor, tolerance float64) string {
	if got == nil {
		return "there is no output"
	}
	if got.DType() != want.DType() || !got.Shape().Equal(want.Shape()) {
		return fmt.Sprintf("is %v%v, want %v%v", got.DType(), got.Shape(), want.DType(), want.Shape())
	}
	for i := range want.Len() {
		if !same(got, want, i, tolerance) {
			return fmt.Sprintf("element %d is %v, want %v (shape %v)", i, Element(got, i), Element(want, i), want.Shape())
		}
	}
	return ""
}

func same(got, want *tensor.Tensor, i int, tolerance float64) bool {
	switch g := Element(got, i).(type) {
	case float64:
		return near(g, Element(want, i).(float64), tolerance)
	case complex128:
		w := Element(want, i).(complex128)
		return near(real(g), real(w), tolerance) && near(imag(g), imag(w), tolerance)
	case tensor.Handle:
		w := Element(want, i).(tensor.Handle)
		return g.Name == w.Name && g.Container == w.Container && g.Device == w.Device && g.Type == w.Type
	case tensor.Portable:
		w, ok := Element(want, i).(tensor.Portable)
		return ok && sameVariant(g.Portable(), w.Portable(), tolerance)
	default:
		return g == Element(want, i)
	}
}

// sameVariant compares elements of variant tensors in their encoded form.
func sameVariant(got, want tensor.VariantData, tolerance float64) bool {
	if got.Type != want.Type || !bytes.Equal(got.Metadata, want.Metadata) || len(got.Tensors) != len(want.Tensors) {
		return false
	}
	for i, t := range got.Tensors {
		if Diff(t, want.Tensors[i], tolerance) != "" {
			return false
		}
	}
	return true
}

func near(got, want, tolerance float64) bool {
	if got == want || math.IsNaN(got) && math.IsNaN(want) {
		return true
	}
	return math.Abs(got-want) <= tolerance*max(1, math.Abs(want))
}

// Element returns element i as float64, int64, uint64, complex128, bool, string, Handle or any. Half and bfloat16 elements are widened.
func Element(t *tensor.Tensor, i int) any {
	switch d := t.DType(); {
	case d == tensor.Float32:
		return float64(tensor.Of[float32](t)[i])
	case d == tensor.Float64:
		return tensor.Of[float64](t)[i]
	case d == tensor.Float16:
		return widen(tensor.Of[uint16](t)[i])
	case d == tensor.BFloat16:
		return float64(math.Float32frombits(uint32(tensor.Of[uint16](t)[i]) << 16))
	case d == tensor.Complex64:
		return complex128(tensor.Of[complex64](t)[i])
	case d == tensor.Complex128:
		return tensor.Of[complex128](t)[i]
	case d == tensor.Bool:
		return tensor.Of[bool](t)[i]
	case d == tensor.String:
		return t.Strings()[i]
	case d == tensor.Resource:
		return t.Handles()[i]
	case d == tensor.Variant:
		return t.Variants()[i]
	case d == tensor.Int8 || d == tensor.QInt8:
		return int64(tensor.Of[int8](t)[i])
	case d == tensor.Int16 || d == tensor.QInt16:
		return int64(tensor.Of[int16](t)[i])
	case d == tensor.Int32 || d == tensor.QInt32:
		return int64(tensor.Of[int32](t)[i])
	case d == tensor.Int64:
		return tensor.Of[int64](t)[i]
	case d == tensor.Uint64:
		return tensor.Of[uint64](t)[i]
	case d == tensor.Uint32:
		return uint64(tensor.Of[uint32](t)[i])
	case d.Size() == 2:
		return uint64(tensor.Of[uint16](t)[i])
	default:
		return uint64(tensor.Of[uint8](t)[i])
	}
}

// widen reads an IEEE half.
func widen(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&31), float64(h&1023)
	if h>>15 == 1 {
		sign = -1
	}
	switch {
	case exp == 31 && frac != 0:
		return math.NaN()
	case exp == 31:
		return math.Inf(int(sign))
	case exp == 0:
		return sign * math.Ldexp(frac, -24)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

// tensorProto returns the message of a tensor, for tensor attributes.
func tensorProto(t *tensor.Tensor) *tensorpb.TensorProto {
	p := &tensorpb.TensorProto{Dtype: t.DType().Proto(), TensorShape: t.Shape().Proto()}
	if t.DType() == tensor.String {
		for _, s := range t.Strings() {
			p.StringVal = append(p.StringVal, unsafe.Slice(unsafe.StringData(s), len(s)))
		}
		return p
	}
	p.TensorContent = append([]byte(nil), t.Data()...)
	return p
}
