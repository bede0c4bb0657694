package kernels

import (
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// indexList is an integer tensor read as int64s. int64 tensors are viewed where they are, others
// are widened to borrowed memory.
type indexList struct {
	v       []int64
	scratch *[]int64
}

var indexScratch = sync.Pool{New: func() any { return new([]int64) }}

// readIndices reads an int16, int32 or int64 tensor. The caller frees the list while it still
// holds the tensor.
func readIndices(t *tensor.Tensor) (indexList, error) {
	switch t.DType() {
	case tensor.Int64:
		return indexList{v: tensor.Of[int64](t)}, nil
	case tensor.Int32:
		return widenIndices(tensor.Of[int32](t)), nil
	case tensor.Int16:
		return widenIndices(tensor.Of[int16](t)), nil
	}
	return indexList{}, status.InvalidArgumentf("Indices must be int16, int32 or int64, not %v", t.DType())
}

func widenIndices[T int8 | uint8 | int16 | int32](src []T) indexList {
	scratch := indexScratch.Get().(*[]int64)
	if cap(*scratch) < len(src) {
		*scratch = make([]int64, len(src))
	}
	v := (*scratch)[:len(src)]
	for i, e := range src {
		v[i] = int64(e)
	}
	return indexList{v, scratch}
}

func (l indexList) free() {
	if l.scratch != nil {
		indexScratch.Put(l.scratch)
	}
}

// within tells with TensorFlow's text which of the indices, of the given shape, is not in [0, n).
func (l indexList) within(shape tensor.Shape, n int64) error {
	for i, v := range l.v {
		if v < 0 || v >= n {
			return status.InvalidArgumentf("indices%s = %d is not in [0, %d)", position(shape, i), v, n)
		}
	}
	return nil
}

// position writes where element i lies in a tensor of the shape: [3], [1,2], nothing in a scalar.
func position(shape tensor.Shape, i int) string {
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
