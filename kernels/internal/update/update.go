package update

import (
	"slices"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// Op is how an update combines the old element and the new one.
type Op int

// The updates. Ops is their number.
const (
	Set Op = iota
	Add
	Sub
	Mul
	Div
	Min
	Max
	Ops
)

// Func sets each element of dst to the op of the elements of old and value. All three have the same number of elements; dst may be the same
// memory as either of the others.
type Func func(dst, old, value []byte)

// updaterTable holds the arithmetic updates for each element type. Setting is a move and needs no arithmetic. The op tables reject types
// for which an op has no entry.
type updaterTable [Ops]map[tensor.DType]Func

// Updaters holds the arithmetic updates by operation and element type.
var Updaters = func() (all updaterTable) {
	for op := range all {
		all[op] = map[tensor.DType]Func{}
	}
	addReal[int8](&all)
	addReal[int16](&all)
	addReal[int32](&all)
	addReal[int64](&all)
	addReal[uint8](&all)
	addReal[uint16](&all)
	addReal[uint32](&all)
	addReal[uint64](&all)
	addReal[float64](&all)
	addReal[float32](&all)
	addComplex[complex64](&all)
	addComplex[complex128](&all)
	addHalf(&all, element.Float16.Float, element.ToFloat16)
	addHalf(&all, element.BFloat16.Float, element.ToBFloat16)
	// Bools are added and subtracted as the numbers 0 and 1; a nonzero result is true.
	all[Add][tensor.Bool] = updating(func(dst, a, b []uint8) {
		for i, v := range b {
			dst[i] = uint8(element.OneIf(a[i] != 0 || v != 0))
		}
	})
	all[Sub][tensor.Bool] = updating(func(dst, a, b []uint8) {
		for i, v := range b {
			dst[i] = uint8(element.OneIf((a[i] != 0) != (v != 0)))
		}
	})
	all[Add][tensor.Float32] = updating(simd.Add)
	all[Sub][tensor.Float32] = updating(simd.Sub)
	return all
}()

// updating makes a Func of a slice function that computes dst from a and b.
func updating[T any](f func(dst, a, b []T)) Func {
	return func(dst, old, value []byte) { f(element.Cells[T](dst), element.Cells[T](old), element.Cells[T](value)) }
}

func addReal[T element.Ordered](all *updaterTable) {
	d := element.DTypeOf[T]()
	all[Add][d] = updating(elementwise.Add[T])
	all[Sub][d] = updating(elementwise.Sub[T])
	all[Mul][d] = updating(elementwise.Mul[T])
	all[Div][d] = updating(elementwise.Div[T])
	all[Min][d] = updating(func(dst, a, b []T) {
		for i, v := range b {
			dst[i] = min(a[i], v)
		}
	})
	all[Max][d] = updating(func(dst, a, b []T) {
		for i, v := range b {
			dst[i] = max(a[i], v)
		}
	})
}

func addComplex[T element.ComplexNum](all *updaterTable) {
	d := element.DTypeOf[T]()
	all[Add][d] = updating(elementwise.Add[T])
	all[Sub][d] = updating(elementwise.Sub[T])
	all[Mul][d] = updating(elementwise.Mul[T])
	all[Div][d] = updating(elementwise.Div[T])
}

func addHalf[H element.HalfFloat](all *updaterTable, wide func(H) float32, narrow func(float32) H) {
	row := func(op Op, f func(a, b float32) float32) {
		all[op][element.DTypeOf[H]()] = updating(func(dst, a, b []H) {
			for i, v := range b {
				dst[i] = narrow(f(wide(a[i]), wide(v)))
			}
		})
	}
	row(Add, func(a, b float32) float32 { return a + b })
	row(Sub, func(a, b float32) float32 { return a - b })
	row(Mul, func(a, b float32) float32 { return a * b })
	row(Div, func(a, b float32) float32 { return a / b })
	row(Min, func(a, b float32) float32 { return min(a, b) })
	row(Max, func(a, b float32) float32 { return max(a, b) })
}

// All sets all elements of next to the update of old and value, which have the same type and shape. It uses as many cores as the size is
// worth, or the accelerator whose memory they are in.
func All(ctx *kernels.Context, op Op, next, old, value *tensor.Tensor) {
	if !old.OnHost() {
		updateAllOn(ctx, op, next, old, value)
		return
	}
	update := Updaters[op][old.DType()]
	to, from, with, size := next.Data(), old.Data(), value.Data(), old.DType().Size()
	if old.Len() <= element.CheapGrain {
		update(to, from, with)
		return
	}
	ctx.Device.Parallel(old.Len(), element.CheapGrain, func(lo, hi int) {
		update(to[lo*size:hi*size], from[lo*size:hi*size], with[lo*size:hi*size])
	})
}

// RewriteVariable updates all elements of a variable with those of input 1, in one pass. The result goes into the variable's own memory; if
// that is being read, into the input's memory, provided nothing else refers to it; otherwise into new memory. mismatch returns the error
// for shapes that differ.
func RewriteVariable(ctx *kernels.Context, v *containers.Variable, op Op, mismatch func(have, got tensor.Shape) error) error {
	value := ctx.Input(1)
	return v.Rewrite(ctx.Changes(), ctx.Device.Memory(), value, func(next, old *tensor.Tensor) error {
		if !old.Shape().Equal(value.Shape()) {
			return mismatch(old.Shape(), value.Shape())
		}
		All(ctx, op, next, old, value)
		return nil
	})
}

// ZeroIn holds, for each type that can be divided, a function that reports whether any element is zero.
var ZeroIn = map[tensor.DType]func([]byte) bool{
	tensor.Int8: contains0[int8], tensor.Int16: contains0[int16], tensor.Int32: contains0[int32], tensor.Int64: contains0[int64],
	tensor.Uint8: contains0[uint8], tensor.Uint16: contains0[uint16], tensor.Uint32: contains0[uint32], tensor.Uint64: contains0[uint64],
	tensor.Float32: contains0[float32], tensor.Float64: contains0[float64],
	tensor.Complex64: contains0[complex64], tensor.Complex128: contains0[complex128],
	tensor.Float16: contains0Half, tensor.BFloat16: contains0Half,
}

func contains0[T element.Numeric](b []byte) bool { return slices.Contains(element.Cells[T](b), 0) }

func contains0Half(b []byte) bool {
	return slices.ContainsFunc(element.Cells[uint16](b), func(v uint16) bool { return v&0x7fff == 0 })
}
