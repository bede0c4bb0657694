package element

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// LoadNumbers reads len(dst) elements of t, starting with element at.
func LoadNumbers(dst []complex128, t *tensor.Tensor, at int) error {
	switch t.DType() {
	case tensor.Float32:
		for i, v := range tensor.Of[float32](t)[at : at+len(dst)] {
			dst[i] = complex(float64(v), 0)
		}
	case tensor.Float64:
		for i, v := range tensor.Of[float64](t)[at : at+len(dst)] {
			dst[i] = complex(v, 0)
		}
	case tensor.Complex64:
		for i, v := range tensor.Of[complex64](t)[at : at+len(dst)] {
			dst[i] = complex128(v)
		}
	case tensor.Complex128:
		copy(dst, tensor.Of[complex128](t)[at:])
	default:
		return status.InvalidArgumentf("Matrices of type %v are not supported", t.DType())
	}
	return nil
}

// StoreNumbers writes src to t, starting at element at. If t is real or integer, it writes only the real parts.
func StoreNumbers(t *tensor.Tensor, at int, src []complex128) {
	switch t.DType() {
	case tensor.Float32:
		for i, v := range src {
			tensor.Of[float32](t)[at+i] = float32(real(v))
		}
	case tensor.Float64:
		for i, v := range src {
			tensor.Of[float64](t)[at+i] = real(v)
		}
	case tensor.Complex64:
		for i, v := range src {
			tensor.Of[complex64](t)[at+i] = complex64(v)
		}
	case tensor.Complex128:
		copy(tensor.Of[complex128](t)[at:], src)
	case tensor.Int32:
		for i, v := range src {
			tensor.Of[int32](t)[at+i] = int32(real(v))
		}
	case tensor.Int64:
		for i, v := range src {
			tensor.Of[int64](t)[at+i] = int64(real(v))
		}
	}
}
