package elementwise

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// UnaryRow is a unary elementwise op for one element type.
type UnaryRow struct {
	In, Out *Elem
	// Each computes n elements of dst from n elements of a. dst may be a.
	Each func(dst, a unsafe.Pointer, n int)
}

// UnaryRows are the rows of an op for all its element types.
type UnaryRows []UnaryRow

// On1 makes a row from a slice function.
func On1[T, R any](f func(dst []R, a []T)) UnaryRow {
	return UnaryRow{In: ElemOf[T](), Out: ElemOf[R](), Each: func(dst, a unsafe.Pointer, n int) {
		f(unsafe.Slice((*R)(dst), n), unsafe.Slice((*T)(a), n))
	}}
}

// Floats1 makes rows for float and double, and for half and bfloat16 computed as float.
func Floats1[A, B any](f32 func(dst []A, a []float32), f64 func(dst []B, a []float64)) UnaryRows {
	rows := UnaryRows{On1(f32), On1(f64)}
	switch f := any(f32).(type) {
	case func(dst, a []float32):
		rows = append(rows, On1(widened1[element.Float16](f)), On1(widened1[element.BFloat16](f)))
	case func(dst []bool, a []float32):
		rows = append(rows, On1(widenedTest1[element.Float16](f)), On1(widenedTest1[element.BFloat16](f)))
	}
	return rows
}

func widened1[H element.HalfFloat](f func(dst, a []float32)) func(dst, a []H) {
	return func(dst, a []H) {
		var x [element.HalfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), element.HalfBlock)
			element.Widen(x[:n], a[:n])
			f(x[:n], x[:n])
			element.Narrow(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

func widenedTest1[H element.HalfFloat](f func(dst []bool, a []float32)) func(dst []bool, a []H) {
	return func(dst []bool, a []H) {
		var x [element.HalfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), element.HalfBlock)
			element.Widen(x[:n], a[:n])
			f(dst[:n], x[:n])
			dst, a = dst[n:], a[n:]
		}
	}
}

// one is not known to the compiler, which would leave out a product with 1.
var one = 1.0

// Read returns x as arithmetic reads it: where the thread treats subnormal numbers as zeros, a zero for a subnormal x. Functions that
// look at the bits of their argument see otherwise another number than their comparisons.
func Read(x float64) float64 { return x * one }

// ReadComplex is Read for both parts of a number.
func ReadComplex(x complex128) complex128 { return complex(Read(real(x)), Read(imag(x))) }

// Each32 makes a slice function from a function of a float64.
func Each32(f func(float64) float64) func(dst, a []float32) {
	return func(dst, a []float32) {
		for i, v := range a {
			dst[i] = float32(f(float64(v)))
		}
	}
}

// PerElement1 is Floats1 for a function of a float64, which gets what Read returns.
func PerElement1(f func(float64) float64) UnaryRows { return Fast1(Each32(f), f) }

// Kept1 is PerElement1 for a function that may return a subnormal argument also where the thread treats these numbers as zeros.
func Kept1(f func(float64) float64) UnaryRows { return Floats1(Each32(f), Each64(f)) }

// Fast1 is PerElement1 with a separate function for float.
func Fast1(f32 func(dst, a []float32), f func(float64) float64) UnaryRows {
	return Floats1(f32, func(dst, a []float64) {
		for i, v := range a {
			dst[i] = f(Read(v))
		}
	})
}

// Complex1 makes rows for the complex types.
func Complex1[A, B any](f64 func(dst []A, a []complex64), f128 func(dst []B, a []complex128)) UnaryRows {
	return UnaryRows{On1(f64), On1(f128)}
}

// PerComplex1 is Complex1 for a function of one number.
func PerComplex1(f func(complex128) complex128) UnaryRows {
	return Complex1(
		func(dst, a []complex64) {
			for i, v := range a {
				dst[i] = complex64(f(complex128(v)))
			}
		},
		func(dst, a []complex128) {
			for i, v := range a {
				dst[i] = f(ReadComplex(v))
			}
		})
}

// Signed1 makes rows for the signed integers.
func Signed1[A, B, C, D any](f8 func(dst []A, a []int8), f16 func(dst []B, a []int16), f32 func(dst []C, a []int32), f64 func(dst []D, a []int64)) UnaryRows {
	return UnaryRows{On1(f8), On1(f16), On1(f32), On1(f64)}
}

// Unsigned1 makes rows for the unsigned integers.
func Unsigned1[A, B, C, D any](f8 func(dst []A, a []uint8), f16 func(dst []B, a []uint16), f32 func(dst []C, a []uint32), f64 func(dst []D, a []uint64)) UnaryRows {
	return UnaryRows{On1(f8), On1(f16), On1(f32), On1(f64)}
}

// Unary returns the table rows of a unary op whose input has type T.
func Unary(grain int, sets ...UnaryRows) []kernels.Def {
	var defs []kernels.Def
	for _, set := range sets {
		for _, row := range set {
			k := &UnaryKernel{UnaryRow: row, Grain: grain}
			defs = append(defs, kernels.Def{Types: map[string][]tensor.DType{"T": {row.In.DType}}, New: k.construct})
		}
	}
	return defs
}

// Typed adds the output type to rows of ops that have an attribute for it.
func Typed(attr string, rows []kernels.Def, sets ...UnaryRows) []kernels.Def {
	i := 0
	for _, set := range sets {
		for _, row := range set {
			rows[i].Types[attr] = []tensor.DType{row.Out.DType}
			i++
		}
	}
	return rows
}

// UnaryKernel handles the memory and parallelism of unary elementwise ops.
type UnaryKernel struct {
	UnaryRow
	Grain int
}

func (k *UnaryKernel) construct(*kernels.Construction) (any, error) { return k, nil }

// Compute implements kernels.Kernel.
func (k *UnaryKernel) Compute(ctx *kernels.Context) error {
	a := ctx.Inputs[0].Tensor
	if a.DType() != k.In.DType {
		return args.CheckType(ctx, 0, k.In.DType)
	}
	out, err := ctx.Forward(0, 0, k.Out.DType, a.Shape())
	if err != nil {
		return err
	}
	if n := a.Len(); n <= k.Grain {
		k.Each(element.Elements(out), element.Elements(a), n)
		return nil
	}
	k.parts(ctx, out, a)
	return ctx.Ended()
}

// parts computes all elements. It stops when the step is cancelled, since an element of some ops takes microseconds.
func (k *UnaryKernel) parts(ctx *kernels.Context, out, a *tensor.Tensor) {
	dst, src := element.Elements(out), element.Elements(a)
	ctx.Parallel(a.Len(), k.Grain, func(lo, hi int) {
		for ; lo < hi && ctx.Ended() == nil; lo += k.Grain {
			k.Each(k.Out.At(dst, lo), k.In.At(src, lo), min(k.Grain, hi-lo))
		}
	})
}
