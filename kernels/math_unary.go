package kernels

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
)

// unaryRow is a unary elementwise op for one element type.
type unaryRow struct {
	in, out *elem
	// each computes n elements of dst from as many of a. dst may be a.
	each func(dst, a unsafe.Pointer, n int)
}

// unaryRows are the rows of an op, of all its element types.
type unaryRows []unaryRow

// on1 makes a row of a slice function.
func on1[T, R any](f func(dst []R, a []T)) unaryRow {
	return unaryRow{in: elemOf[T](), out: elemOf[R](), each: func(dst, a unsafe.Pointer, n int) {
		f(unsafe.Slice((*R)(dst), n), unsafe.Slice((*T)(a), n))
	}}
}

// floats1 makes rows for float and double, and for half and bfloat16 by way of float.
func floats1[A, B any](f32 func(dst []A, a []float32), f64 func(dst []B, a []float64)) unaryRows {
	rows := unaryRows{on1(f32), on1(f64)}
	switch f := any(f32).(type) {
	case func(dst, a []float32):
		rows = append(rows, on1(widened1[float16](f)), on1(widened1[bfloat16](f)))
	case func(dst []bool, a []float32):
		rows = append(rows, on1(widenedTest1[float16](f)), on1(widenedTest1[bfloat16](f)))
	}
	return rows
}

func widened1[H halfFloat](f func(dst, a []float32)) func(dst, a []H) {
	return func(dst, a []H) {
		var x [halfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), halfBlock)
			widen(x[:n], a[:n])
			f(x[:n], x[:n])
			narrow(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

func widenedTest1[H halfFloat](f func(dst []bool, a []float32)) func(dst []bool, a []H) {
	return func(dst []bool, a []H) {
		var x [halfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), halfBlock)
			widen(x[:n], a[:n])
			f(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

// each32 and each64 make slice functions of a function of a float64.
func each32(f func(float64) float64) func(dst, a []float32) {
	return func(dst, a []float32) {
		for i, v := range a {
			dst[i] = float32(f(float64(v)))
		}
	}
}

func each64(f func(float64) float64) func(dst, a []float64) {
	return func(dst, a []float64) {
		for i, v := range a {
			dst[i] = f(v)
		}
	}
}

// perElement1 is floats1 for a function of a float64; fast1 the same with a function of its own
// for float.
func perElement1(f func(float64) float64) unaryRows { return floats1(each32(f), each64(f)) }

func fast1(f32 func(dst, a []float32), f func(float64) float64) unaryRows {
	return floats1(f32, each64(f))
}

// complex1 makes rows for the complex types, perComplex1 the same of a function of one number.
func complex1[A, B any](f64 func(dst []A, a []complex64), f128 func(dst []B, a []complex128)) unaryRows {
	return unaryRows{on1(f64), on1(f128)}
}

func perComplex1(f func(complex128) complex128) unaryRows {
	return complex1(
		func(dst, a []complex64) {
			for i, v := range a {
				dst[i] = complex64(f(complex128(v)))
			}
		},
		func(dst, a []complex128) {
			for i, v := range a {
				dst[i] = f(v)
			}
		})
}

// signed1 makes rows for the integers with a sign, unsigned1 for those without.
func signed1[A, B, C, D any](f8 func(dst []A, a []int8), f16 func(dst []B, a []int16), f32 func(dst []C, a []int32), f64 func(dst []D, a []int64)) unaryRows {
	return unaryRows{on1(f8), on1(f16), on1(f32), on1(f64)}
}

func unsigned1[A, B, C, D any](f8 func(dst []A, a []uint8), f16 func(dst []B, a []uint16), f32 func(dst []C, a []uint32), f64 func(dst []D, a []uint64)) unaryRows {
	return unaryRows{on1(f8), on1(f16), on1(f32), on1(f64)}
}

// unary makes the table rows of a unary op whose input has type T.
func unary(op string, grain int, sets ...unaryRows) []Def {
	var defs []Def
	for _, set := range sets {
		for _, row := range set {
			k := &unaryKernel{unaryRow: row, grain: grain}
			defs = append(defs, Def{Op: op, Types: map[string][]tensor.DType{"T": {row.in.dtype}}, New: k.construct})
		}
	}
	return defs
}

// typed adds the type of the output to rows of ops that have an attribute for it.
func typed(attr string, rows []Def, sets ...unaryRows) []Def {
	i := 0
	for _, set := range sets {
		for _, row := range set {
			rows[i].Types[attr] = []tensor.DType{row.out.dtype}
			i++
		}
	}
	return rows
}

// unaryKernel owns memory and parallelism of unary elementwise ops.
type unaryKernel struct {
	unaryRow
	grain int
}

func (k *unaryKernel) construct(*Construction) (any, error) { return k, nil }

func (k *unaryKernel) Compute(ctx *Context) error {
	a := ctx.Inputs[0].Tensor
	if a.DType() != k.in.dtype {
		return checkType(ctx, 0, k.in.dtype)
	}
	out, err := ctx.Forward(0, 0, k.out.dtype, a.Shape())
	if err != nil {
		return err
	}
	if n := a.Len(); n <= k.grain {
		k.each(elements(out), elements(a), n)
	} else {
		k.parts(ctx, out, a)
	}
	return nil
}

func (k *unaryKernel) parts(ctx *Context, out, a *tensor.Tensor) {
	dst, src := elements(out), elements(a)
	ctx.Device.Parallel(a.Len(), k.grain, func(lo, hi int) {
		k.each(k.out.at(dst, lo), k.in.at(src, lo), hi-lo)
	})
}
