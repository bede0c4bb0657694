package tensor

import (
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// From returns a tensor with a copy of a Go value: a scalar T, or []T, [][]T, [][][]T or [][][][]T for any Value type T. All slices at the
// same depth must have the same length. Otherwise, or for a value of another type, it fails with INVALID_ARGUMENT and names the first
// offender. For a flat slice and any shape, use FromValues, or Wrap to avoid the copy.
func From(value any) (*Tensor, error) {
	for _, from := range fromAny {
		if t, known, err := from(value); known {
			return t, err
		}
	}
	return nil, status.InvalidArgumentf("No tensor can be made of a Go value of type %T%s", value, hint(value))
}

// To returns a tensor's value as a Go value with its own memory: a T for a scalar, a []T for a vector, up to [][][][]T. It is
// INVALID_ARGUMENT if the tensor's type or rank is not V's.
func To[V any](t *Tensor) (V, error) {
	var value V
	for _, to := range toAny {
		if known, err := to(t, &value); known {
			return value, err
		}
	}
	return value, status.InvalidArgumentf("No tensor's value has the Go type %T%s", value, hint(value))
}

// The types in the order in which they are tried: the most common come first.
var (
	fromAny = []func(any) (*Tensor, bool, error){fromNested[float32], fromNested[int32], fromNested[int64], fromNested[float64],
		fromNested[string], fromNested[bool], fromNested[uint8], fromNested[BF16], fromNested[F16], fromNested[int8], fromNested[int16],
		fromNested[uint16], fromNested[uint32], fromNested[uint64], fromNested[complex64], fromNested[complex128]}
	toAny = []func(*Tensor, any) (bool, error){toNested[float32], toNested[int32], toNested[int64], toNested[float64],
		toNested[string], toNested[bool], toNested[uint8], toNested[BF16], toNested[F16], toNested[int8], toNested[int16],
		toNested[uint16], toNested[uint32], toNested[uint64], toNested[complex64], toNested[complex128]}
)

// hint explains the most common mistakes about types.
func hint(value any) string {
	switch value.(type) {
	case int, []int, [][]int, uint, []uint, [][]uint:
		return ": say int32 or int64, which are different types there"
	}
	return ""
}

func fromNested[T Value](value any) (t *Tensor, known bool, err error) {
	var shape Shape
	var rows [][]T
	switch v := value.(type) {
	case T:
		return FromScalar(v), true, nil
	case []T:
		t, err = FromValues(v)
		return t, true, err
	case [][]T:
		shape, rows = Shape{int64(len(v))}, v
	case [][][]T:
		shape = Shape{int64(len(v))}
		rows, err = chain(&shape, v)
	case [][][][]T:
		shape = Shape{int64(len(v))}
		var planes [][][]T
		if planes, err = chain(&shape, v); err == nil {
			rows, err = chain(&shape, planes)
		}
	default:
		return nil, false, nil
	}
	if err == nil {
		t, err = fromRows(shape, rows)
	}
	return t, true, err
}

// width returns the common length of lists, which are at the positions of shape.
func width[E any](shape Shape, lists [][]E) (int, error) {
	for i, l := range lists {
		if len(l) != len(lists[0]) {
			return 0, status.InvalidArgumentf("A ragged value is not a tensor: %s has %d elements, where %s has %d",
				place(shape, i), len(l), place(shape, 0), len(lists[0]))
		}
	}
	if len(lists) == 0 {
		return 0, nil
	}
	return len(lists[0]), nil
}

// place formats the Go index of element i of a shape.
func place(shape Shape, i int) string {
	index := make([]string, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d] = fmt.Sprintf("[%d]", i%int(shape[d]))
		i /= int(shape[d])
	}
	return strings.Join(index, "")
}

// chain concatenates lists of equal length and appends their length to the shape.
func chain[E any](shape *Shape, lists [][]E) ([]E, error) {
	n, err := width(*shape, lists)
	if err != nil {
		return nil, err
	}
	*shape = append(*shape, int64(n))
	all := make([]E, 0, len(lists)*n)
	for _, l := range lists {
		all = append(all, l...)
	}
	return all, nil
}

func fromRows[T Value](shape Shape, rows [][]T) (*Tensor, error) {
	n, err := width(shape, rows)
	if err != nil {
		return nil, err
	}
	t, err := New(Host, TypeOf[T](), append(shape, int64(n)))
	if err != nil {
		return nil, err
	}
	dst := elements[T](t)
	for _, row := range rows {
		dst = dst[copy(dst, row):]
	}
	return t, nil
}

// toNested stores t's value in what to points at, if its elements are of type T.
func toNested[T Value](t *Tensor, to any) (known bool, err error) {
	rank := 0
	switch to.(type) {
	case *T:
	case *[]T:
		rank = 1
	case *[][]T:
		rank = 2
	case *[][][]T:
		rank = 3
	case *[][][][]T:
		rank = 4
	default:
		return false, nil
	}
	if want := TypeOf[T](); t.dtype != want || t.Rank() != rank {
		return true, status.InvalidArgumentf("A tensor of type %v and shape %v was asked for a value of type %v and rank %d", t.dtype, t.shape, want, rank)
	}
	if v, ok := to.(*T); ok {
		*v = elements[T](t)[0]
		return true, nil
	}
	flat := append(make([]T, 0, t.n), elements[T](t)...)
	switch v := to.(type) {
	case *[]T:
		*v = flat
	case *[][]T:
		*v = split(flat, t.shape[0], t.shape[1])
	case *[][][]T:
		*v = split(split(flat, t.shape[0]*t.shape[1], t.shape[2]), t.shape[0], t.shape[1])
	case *[][][][]T:
		rows := split(flat, t.shape[0]*t.shape[1]*t.shape[2], t.shape[3])
		*v = split(split(rows, t.shape[0]*t.shape[1], t.shape[2]), t.shape[0], t.shape[1])
	}
	return true, nil
}

// split cuts flat into lists of each elements. They share its memory, and appending to one does not overwrite the next.
func split[E any](flat []E, lists, each int64) [][]E {
	out := make([][]E, lists)
	for i := range out {
		at := int64(i) * each
		out[i] = flat[at : at+each : at+each]
	}
	return out
}
