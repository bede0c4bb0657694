package args

import (
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// IndexList is an integer tensor read as int64s. int64 tensors are viewed in place; others are widened into borrowed memory.
type IndexList struct {
	V       []int64
	scratch *[]int64
}

var indexScratch = sync.Pool{New: func() any { return new([]int64) }}

// ReadIndices reads an int16, int32 or int64 tensor. The caller must call Free before it releases the tensor.
func ReadIndices(t *tensor.Tensor) (IndexList, error) {
	switch t.DType() {
	case tensor.Int64:
		return IndexList{V: tensor.Of[int64](t)}, nil
	case tensor.Int32:
		return WidenIndices(tensor.Of[int32](t)), nil
	case tensor.Int16:
		return WidenIndices(tensor.Of[int16](t)), nil
	}
	return IndexList{}, status.InvalidArgumentf("Indices must be int16, int32 or int64, not %v", t.DType())
}

// WidenIndices copies integers as int64s to memory that is borrowed until Free.
func WidenIndices[T int8 | uint8 | int16 | int32](src []T) IndexList {
	scratch := indexScratch.Get().(*[]int64)
	if cap(*scratch) < len(src) {
		*scratch = make([]int64, len(src))
	}
	v := (*scratch)[:len(src)]
	for i, e := range src {
		v[i] = int64(e)
	}
	return IndexList{v, scratch}
}

// Free returns the borrowed memory. The list must not be used afterwards.
func (l IndexList) Free() {
	if l.scratch != nil {
		indexScratch.Put(l.scratch)
	}
}

// Within returns TensorFlow's error for the first index outside [0, n). shape is the shape of the indices.
func (l IndexList) Within(shape tensor.Shape, n int64) error {
	for i, v := range l.V {
		if v < 0 || v >= n {
			return status.InvalidArgumentf("indices%s = %d is not in [0, %d)", Position(shape, i), v, n)
		}
	}
	return nil
}

// Position formats the position of element i in a tensor of the shape: [3], [1,2], or nothing for a scalar.
func Position(shape tensor.Shape, i int) string {
	if len(shape) == 0 {
		return ""
	}
	at := make([]string, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = strconv.FormatInt(int64(i)%shape[d], 10)
		i /= int(shape[d])
	}
	return "[" + strings.Join(at, ",") + "]"
}
