package array

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// where returns the coordinates of the nonzero elements of input 0, one row for each.
func where(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if t.Rank() == 0 {
		return status.InvalidArgumentf("WhereOp : Unhandled input dimensions: 0")
	}
	truths, ok := elementTruths(t)
	if !ok {
		return status.Unimplementedf("Where of elements of type %v is not supported", t.DType())
	}
	n := 0
	for _, b := range truths {
		n += element.OneIf(b)
	}
	out, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(n), int64(t.Rank())})
	if err != nil || n == 0 {
		return err
	}
	return coordinates(ctx, tensor.Of[int64](out), truths, t.Shape())
}

// coordinates lists the positions of the true elements in a tensor of the given shape. It works by lines of the last dimension, in which
// only the last coordinate changes. It writes a row for every element; the next element overwrites the row of a false one. That costs less
// than a branch that is hard to predict.
func coordinates(ctx *kernels.Context, rows []int64, truths []bool, shape tensor.Shape) error {
	rank, columns := len(shape), int(shape[len(shape)-1])
	at := make([]int64, rank)
	end := ctx.Lookout()
	for ; len(rows) > 0; truths = truths[columns:] {
		for lo := 0; lo < columns; lo += coordinatesPart {
			if err := end.After(coordinatesTime * min(columns, coordinatesPart)); err != nil {
				return err
			}
			rows = lineCoordinates(rows, truths[lo:min(lo+coordinatesPart, columns)], at, int64(lo))
		}
		for d := rank - 2; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
	return nil
}

// coordinatesTime is the time in nanoseconds to write the coordinates of an element, and coordinatesPart the number of elements of a line
// between two looks for the end of the step.
const coordinatesTime, coordinatesPart = 4, 1 << 14

// lineCoordinates lists the true elements of a part of a line that begins in column first, and returns the remaining rows.
func lineCoordinates(rows []int64, truths []bool, at []int64, first int64) []int64 {
	rank := len(at)
	for i, b := range truths {
		if len(rows) == 0 {
			break
		}
		copy(rows, at[:rank-1])
		rows[rank-1] = first + int64(i)
		rows = rows[rank*element.OneIf(b):]
	}
	return rows
}

// truthsOf holds functions that report for each element whether it is not zero. Other types are tested by their bits.
var truthsOf = map[tensor.DType]func(*tensor.Tensor) []bool{
	tensor.Bool: element.ViewOf[bool], tensor.Float32: truths[float32], tensor.Float64: truths[float64],
	tensor.Complex64: truths[complex64], tensor.Complex128: truths[complex128], tensor.Float16: halfTruths, tensor.BFloat16: halfTruths,
}

// truthsOfSize holds the functions for other types, by element size.
var truthsOfSize = map[int]func(*tensor.Tensor) []bool{1: truths[uint8], 2: truths[uint16], 4: truths[uint32], 8: truths[uint64]}

func truths[T comparable](t *tensor.Tensor) []bool { return notZero(element.ViewOf[T](t)) }

func halfTruths(t *tensor.Tensor) []bool {
	truths := make([]bool, t.Len())
	for i, v := range element.ViewOf[uint16](t) {
		truths[i] = v&0x7fff != 0
	}
	return truths
}

// elementTruths reports for each element whether it is not zero. ok is false for types that it does not support.
func elementTruths(t *tensor.Tensor) (truths []bool, ok bool) {
	of, ok := truthsOf[t.DType()]
	if !ok {
		of, ok = truthsOfSize[t.DType().Size()]
	}
	if !ok {
		return nil, false
	}
	return of(t), true
}

func notZero[T comparable](values []T) []bool {
	var zero T
	truths := make([]bool, len(values))
	for i, v := range values {
		truths[i] = v != zero
	}
	return truths
}

// distinct numbers the slices of t along an axis by first appearance.
func distinct(n *numbering, t *tensor.Tensor, axis int) error {
	before, after := shapes.Around(t.Shape(), axis)
	if before*after == 1 {
		if number, ok := numbererOf(t.DType()); ok {
			return number(n, t)
		}
	}
	key, ok := sliceKeys(t, before, len(n.number), after)
	if !ok {
		return status.Unimplementedf("Unique of elements of type %v is not supported", t.DType())
	}
	return numberKeys(n, key)
}

// severalZeros lists the types with more than one zero and no function of their own. sliceKeys compares them.
var severalZeros = []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Complex64, tensor.Complex128}

func numbererOf(dtype tensor.DType) (number func(*numbering, *tensor.Tensor) error, ok bool) {
	if slices.Contains(severalZeros, dtype) {
		return nil, false
	}
	if number, ok = numberers[dtype]; !ok {
		number, ok = numberersOfSize[dtype.Size()]
	}
	return number, ok
}

// sliceKey returns a string that is equal for equal slices only. lone is set for a slice that equals none, not even itself, since it contains
// a NaN.
type sliceKey func(i int) (key string, lone bool)

// sliceKeys returns the keys of slices by their position along an axis. Zeros of floats are equal whatever their sign.
func sliceKeys(t *tensor.Tensor, before, n, after int) (key sliceKey, ok bool) {
	if t.DType() == tensor.String {
		return func(i int) (string, bool) {
			var b []byte
			for o := range before {
				for _, s := range t.Strings()[(o*n+i)*after : (o*n+i+1)*after] {
					b = append(b, byte(len(s)), byte(len(s)>>8), byte(len(s)>>16), byte(len(s)>>24))
					b = append(b, s...)
				}
			}
			return string(b), false
		}, true
	}
	size := t.DType().Size()
	if size == 0 {
		return nil, false
	}
	data, row := t.Data(), after*size
	// The number of bytes that end with a sign bit.
	part := 0
	if t.DType().IsFloating() {
		part = size
	} else if t.DType().IsComplex() {
		part = size / 2
	}
	nan := nanTests[t.DType()]
	return func(i int) (string, bool) {
		b := make([]byte, 0, before*row)
		for o := range before {
			b = append(b, data[(o*n+i)*row:(o*n+i+1)*row]...)
		}
		for p := 0; part > 0 && p < len(b); p += part {
			if last := p + part - 1; b[last] == 0x80 && allZero(b[p:last]) {
				b[last] = 0
			}
			if nan != nil && nan(b[p:p+part]) {
				return "", true
			}
		}
		return string(b), false
	}, true
}

// nanTests report whether the bytes of a float, or of a part of a complex number, are a NaN.
var nanTests = map[tensor.DType]func([]byte) bool{
	tensor.Float16:    func(b []byte) bool { return binary.LittleEndian.Uint16(b)&0x7fff > 0x7c00 },
	tensor.BFloat16:   func(b []byte) bool { return binary.LittleEndian.Uint16(b)&0x7fff > 0x7f80 },
	tensor.Float32:    isNaN32,
	tensor.Complex64:  isNaN32,
	tensor.Float64:    isNaN64,
	tensor.Complex128: isNaN64,
}

func isNaN32(b []byte) bool { return binary.LittleEndian.Uint32(b)&^(1<<31) > 0x7f800000 }

func isNaN64(b []byte) bool { return binary.LittleEndian.Uint64(b)&^(1<<63) > 0x7ff<<52 }

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// newUnique returns the kernel of the unique ops: the distinct elements, the index of each element among them and, for ops with a third
// output, the number of times that each occurs.
func newUnique(c *kernels.Construction) (any, error) {
	dtype, err := args.IntAttr(c, "out_idx")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t := ctx.Input(0)
		if t.Len() > math.MaxInt32 {
			return status.InvalidArgumentf("unique does not support input tensors larger than %d elements", math.MaxInt32)
		}
		axis, err := uniqueAxis(ctx, t)
		if err != nil {
			return err
		}
		meter := ctx.Meter()
		defer meter.Done()
		n := numbering{meter: &meter}
		finish, err := numberOutput(ctx, &n, dtype, t.Dim(axis))
		if err != nil {
			return err
		}
		if err := distinct(&n, t, axis); err != nil {
			return err
		}
		finish()
		if err := firstSlices(ctx, &n, t, axis); err != nil || len(ctx.Outputs) < 3 {
			return err
		}
		counts, err := kernels.Scratch[int64](&meter, len(n.first))
		if err != nil {
			return err
		}
		for _, id := range n.number {
			counts[id]++
		}
		return args.OutputInts(ctx, 2, dtype, counts)
	}), nil
}

// numberOutput allocates output 1 for the numbers of the given number of elements. Numbers go directly into an int32 output; finish copies
// them into an int64 output.
func numberOutput(ctx *kernels.Context, n *numbering, dtype tensor.DType, elements int) (finish func(), err error) {
	out, err := ctx.Allocate(1, dtype, tensor.Shape{int64(elements)})
	if err != nil {
		return nil, err
	}
	if dtype == tensor.Int32 {
		n.number = tensor.Of[int32](out)
		return func() {}, nil
	}
	n.number, err = kernels.Scratch[int32](n.meter, elements)
	return func() {
		for i, id := range n.number {
			tensor.Of[int64](out)[i] = int64(id)
		}
	}, err
}

// firstSlices sets output 0 to the slices of t along an axis at which numbers first appeared.
func firstSlices(ctx *kernels.Context, n *numbering, t *tensor.Tensor, axis int) error {
	before, after := shapes.Around(t.Shape(), axis)
	out, err := ctx.Allocate(0, t.DType(), shapes.Replaced(t.Shape(), axis, axis+1, int64(len(n.first))))
	if err != nil {
		return err
	}
	from := n.first
	if before != 1 {
		if from, err = kernels.Scratch[int64](n.meter, before*len(n.first)); err != nil {
			return err
		}
		for o := range before {
			for i, f := range n.first {
				from[o*len(n.first)+i] = int64(o*t.Dim(axis)) + f
			}
		}
	}
	return layout.MoveAt(ctx, out, t, nil, from, after, len(from))
}

func uniqueAxis(ctx *kernels.Context, t *tensor.Tensor) (int, error) {
	if len(ctx.Inputs) < 2 || ctx.Input(1).Rank() == 1 && ctx.Input(1).Len() == 0 {
		if t.Rank() != 1 {
			return 0, status.InvalidArgumentf("unique expects a 1D vector.")
		}
		return 0, nil
	}
	a := ctx.Input(1)
	if a.Rank() != 1 {
		return 0, status.InvalidArgumentf("axis expects a 1D vector.")
	}
	if a.Len() > 1 {
		return 0, status.InvalidArgumentf("axis does not support input tensors larger than 1 elements")
	}
	v, err := args.ScalarInt(ctx, 1, "axis tensor")
	if err != nil {
		return 0, err
	}
	axis, ok := shapes.WrapAxis(v, t.Rank())
	if !ok {
		return 0, status.InvalidArgumentf("axis has to be between [0, %d)", t.Rank())
	}
	return axis, nil
}

// keyTime is the time in nanoseconds to look up an element in a map.
const keyTime = 100

// fewKeys is the number of elements for which room in a map is made at once.
const fewKeys = 1 << 16

// newListDiff returns the kernel that computes the elements of vector 0 that are not in vector 1, and their indices.
func newListDiff(c *kernels.Construction) (any, error) {
	dtype, err := args.IntAttr(c, "out_idx")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		x, y := ctx.Input(0), ctx.Input(1)
		if x.Rank() != 1 {
			return status.InvalidArgumentf("x should be a 1D vector.")
		}
		if y.Rank() != 1 {
			return status.InvalidArgumentf("y should be a 1D vector.")
		}
		if x.DType() != y.DType() {
			return status.InvalidArgumentf("x and y should have the same type, not %v and %v", x.DType(), y.DType())
		}
		keyX, ok := sliceKeys(x, 1, x.Len(), 1)
		keyY, _ := sliceKeys(y, 1, y.Len(), 1)
		if !ok {
			return status.Unimplementedf("ListDiff of elements of type %v is not supported", x.DType())
		}
		drop := make(map[string]bool, min(y.Len(), fewKeys)) // room for millions takes long to clear
		end := ctx.Lookout()
		for i := range y.Len() {
			if err := end.After(keyTime); err != nil {
				return err
			}
			if k, lone := keyY(i); !lone {
				drop[k] = true
			}
		}
		var kept []int64
		for i := range x.Len() {
			if err := end.After(keyTime); err != nil {
				return err
			}
			if k, lone := keyX(i); lone || !drop[k] {
				kept = append(kept, int64(i))
			}
		}
		out, err := ctx.Allocate(0, x.DType(), tensor.Shape{int64(len(kept))})
		if err != nil {
			return err
		}
		if err := layout.MoveAt(ctx, out, x, nil, kept, 1, len(kept)); err != nil {
			return err
		}
		return args.OutputInts(ctx, 1, dtype, kept)
	}), nil
}
