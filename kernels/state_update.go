package kernels

import (
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

// updateOp is what an update does with the old element and the new one.
type updateOp int

const (
	updateSet updateOp = iota
	updateAdd
	updateSub
	updateMul
	updateDiv
	updateMin
	updateMax
	updateOps
)

// updater sets each element of dst to the op of that of old and that of value. All are the memory
// of as many elements; dst may be either of the others.
type updater func(dst, old, value []byte)

// updaters are the arithmetic updates for each element type; setting is movement, which needs
// no arithmetic. Types of which an op has no row are refused by the table.
type updaterTable [updateOps]map[tensor.DType]updater

var updaters = func() (all updaterTable) {
	for op := range all {
		all[op] = map[tensor.DType]updater{}
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
	addHalf(&all, float16.float, toFloat16)
	addHalf(&all, bfloat16.float, toBFloat16)
	// Truths are added and subtracted as the numbers 0 and 1, and what is not 0 is true.
	all[updateAdd][tensor.Bool] = updating(func(dst, a, b []uint8) {
		for i, v := range b {
			dst[i] = uint8(oneIf(a[i] != 0 || v != 0))
		}
	})
	all[updateSub][tensor.Bool] = updating(func(dst, a, b []uint8) {
		for i, v := range b {
			dst[i] = uint8(oneIf((a[i] != 0) != (v != 0)))
		}
	})
	all[updateAdd][tensor.Float32] = updating(simd.Add)
	all[updateSub][tensor.Float32] = updating(simd.Sub)
	return all
}()

// updating makes an updater of a slice function that computes dst from a and b.
func updating[T any](f func(dst, a, b []T)) updater {
	return func(dst, old, value []byte) { f(cells[T](dst), cells[T](old), cells[T](value)) }
}

// cells views memory as elements. It must be aligned for them.
func cells[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

func addReal[T ordered](all *updaterTable) {
	d := dtypeOf[T]()
	all[updateAdd][d] = updating(add[T])
	all[updateSub][d] = updating(sub[T])
	all[updateMul][d] = updating(mul[T])
	all[updateDiv][d] = updating(div[T])
	all[updateMin][d] = updating(func(dst, a, b []T) {
		for i, v := range b {
			dst[i] = min(a[i], v)
		}
	})
	all[updateMax][d] = updating(func(dst, a, b []T) {
		for i, v := range b {
			dst[i] = max(a[i], v)
		}
	})
}

func addComplex[T complexNum](all *updaterTable) {
	d := dtypeOf[T]()
	all[updateAdd][d] = updating(add[T])
	all[updateSub][d] = updating(sub[T])
	all[updateMul][d] = updating(mul[T])
	all[updateDiv][d] = updating(div[T])
}

func addHalf[H halfFloat](all *updaterTable, wide func(H) float32, narrow func(float32) H) {
	row := func(op updateOp, f func(a, b float32) float32) {
		all[op][dtypeOf[H]()] = updating(func(dst, a, b []H) {
			for i, v := range b {
				dst[i] = narrow(f(wide(a[i]), wide(v)))
			}
		})
	}
	row(updateAdd, func(a, b float32) float32 { return a + b })
	row(updateSub, func(a, b float32) float32 { return a - b })
	row(updateMul, func(a, b float32) float32 { return a * b })
	row(updateDiv, func(a, b float32) float32 { return a / b })
	row(updateMin, func(a, b float32) float32 { return min(a, b) })
	row(updateMax, func(a, b float32) float32 { return max(a, b) })
}

// updateAll sets all elements of next to what an update makes of those of old and value, of the same
// type and shape: on as many cores as the size is worth, or on the accelerator that they lie on.
func updateAll(ctx *Context, op updateOp, next, old, value *tensor.Tensor) {
	if !old.OnHost() {
		updateAllOn(ctx, op, next, old, value)
		return
	}
	update := updaters[op][old.DType()]
	to, from, with, size := next.Data(), old.Data(), value.Data(), old.DType().Size()
	if old.Len() <= cheapGrain {
		update(to, from, with)
		return
	}
	ctx.Device.Parallel(old.Len(), cheapGrain, func(lo, hi int) {
		update(to[lo*size:hi*size], from[lo*size:hi*size], with[lo*size:hi*size])
	})
}

// rewriteVariable updates all elements of a variable with those of input 1. The result goes into
// the variable's own memory, while someone reads that into the input's, where nobody else needs it,
// or else into new memory, always in one pass. mismatch is the error for shapes that differ.
func rewriteVariable(ctx *Context, v *containers.Variable, op updateOp, mismatch func(have, got tensor.Shape) error) error {
	value := ctx.Input(1)
	return v.Rewrite(ctx.Device.Memory(), value, func(next, old *tensor.Tensor) error {
		if !old.Shape().Equal(value.Shape()) {
			return mismatch(old.Shape(), value.Shape())
		}
		updateAll(ctx, op, next, old, value)
		return nil
	})
}

// zeroIn tells whether an element is zero, for the types that can be divided.
var zeroIn = map[tensor.DType]func([]byte) bool{
	tensor.Int8: contains0[int8], tensor.Int16: contains0[int16], tensor.Int32: contains0[int32], tensor.Int64: contains0[int64],
	tensor.Uint8: contains0[uint8], tensor.Uint16: contains0[uint16], tensor.Uint32: contains0[uint32], tensor.Uint64: contains0[uint64],
	tensor.Float32: contains0[float32], tensor.Float64: contains0[float64],
	tensor.Complex64: contains0[complex64], tensor.Complex128: contains0[complex128],
	tensor.Float16: contains0Half, tensor.BFloat16: contains0Half,
}

func contains0[T numeric](b []byte) bool { return slices.Contains(cells[T](b), 0) }

func contains0Half(b []byte) bool {
	return slices.ContainsFunc(cells[uint16](b), func(v uint16) bool { return v&0x7fff == 0 })
}
