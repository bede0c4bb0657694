package kernels

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

// reduceRow makes the constructor of a reduction for one element type.
func reduceRow[T any](r reducer[T]) reduceEntry {
	dtype := dtypeOf[T]()
	return reduceEntry{dtype, func(c *Construction) (any, error) {
		keep, err := c.Attrs().Bool("keep_dims")
		return &reduceKernel[T]{r, dtype, keep}, err
	}}
}

type reduceEntry struct {
	dtype     tensor.DType
	construct func(*Construction) (any, error)
}

func reduceFloats(f32 reducer[float32], f64 reducer[float64]) []reduceEntry {
	entries := []reduceEntry{reduceRow(f32), reduceRow(f64)}
	for _, half := range halfTypes {
		entries = append(entries, reduceEntry{half, halves(half, entries[0].construct)})
	}
	return entries
}

func reduceInts(i8 reducer[int8], i16 reducer[int16], i32 reducer[int32], i64 reducer[int64], u8 reducer[uint8], u16 reducer[uint16], u32 reducer[uint32], u64 reducer[uint64]) []reduceEntry {
	return []reduceEntry{reduceRow(i8), reduceRow(i16), reduceRow(i32), reduceRow(i64), reduceRow(u8), reduceRow(u16), reduceRow(u32), reduceRow(u64)}
}

func reduceComplex(c64 reducer[complex64], c128 reducer[complex128]) []reduceEntry {
	return []reduceEntry{reduceRow(c64), reduceRow(c128)}
}

// reduction makes the table rows of a reduction.
func reduction(op string, sets ...[]reduceEntry) []Def {
	var defs []Def
	for _, e := range slices.Concat(sets...) {
		defs = append(defs, Def{Op: op, Types: map[string][]tensor.DType{"T": {e.dtype}}, HostInputs: []string{"reduction_indices"}, Expensive: true, New: e.construct})
	}
	return defs
}

func init() {
	Register(reduction("Sum", reduceFloats(sumFloat, sums[float64]()), reduceComplex(sums[complex64](), sums[complex128]()),
		reduceInts(sums[int8](), sums[int16](), sums[int32](), sums[int64](), sums[uint8](), sums[uint16](), sums[uint32](), sums[uint64]()))...)
	Register(reduction("Mean", reduceFloats(averaged(sumFloat), averaged(sums[float64]())), reduceComplex(averagedComplex(sums[complex64]()), averagedComplex(sums[complex128]())),
		[]reduceEntry{wideMean[int8](), wideMean[int16](), wideMean[int32](), reduceRow(averagedInt(sums[int64]())),
			wideMean[uint8](), wideMean[uint16](), wideMean[uint32](), reduceRow(averagedInt(sums[uint64]()))})...)
	Register(reduction("Prod", reduceFloats(products[float32](), products[float64]()), reduceComplex(products[complex64](), products[complex128]()),
		reduceInts(products[int8](), products[int16](), products[int32](), products[int64](), products[uint8](), products[uint16](), products[uint32](), products[uint64]()))...)
	Register(reduction("Max", reduceFloats(maxFloat, maxima(math.Inf(-1))),
		reduceInts(maxima[int8](math.MinInt8), maxima[int16](math.MinInt16), maxima[int32](math.MinInt32), maxima[int64](math.MinInt64),
			maxima[uint8](0), maxima[uint16](0), maxima[uint32](0), maxima[uint64](0)))...)
	Register(reduction("Min", reduceFloats(minFloat, minima(math.Inf(1))),
		reduceInts(minima[int8](math.MaxInt8), minima[int16](math.MaxInt16), minima[int32](math.MaxInt32), minima[int64](math.MaxInt64),
			minima[uint8](math.MaxUint8), minima[uint16](math.MaxUint16), minima[uint32](math.MaxUint32), minima[uint64](math.MaxUint64)))...)
	Register(reduction("EuclideanNorm", reduceFloats(norms(sumFloat, simd.Square, simd.Sqrt), norms(sums[float64](), square[float64], each64(math.Sqrt))),
		reduceComplex(norms(sums[complex64](), squaredAbs[complex64], sqrtComplex[complex64]), norms(sums[complex128](), squaredAbs[complex128], sqrtComplex[complex128])),
		reduceInts(normsInt[int8](), normsInt[int16](), normsInt[int32](), normsInt[int64](), normsInt[uint8](), normsInt[uint16](), normsInt[uint32](), normsInt[uint64]()))...)
	Register(untyped(reduction("All", []reduceEntry{reduceRow(reducer[bool]{identity: true,
		row:  func(a []bool) bool { return !slices.Contains(a, false) },
		into: func(acc, a []bool) { logicalAnd(acc, acc, a) }})}))...)
	Register(untyped(reduction("Any", []reduceEntry{reduceRow(reducer[bool]{identity: false,
		row:  func(a []bool) bool { return slices.Contains(a, true) },
		into: func(acc, a []bool) { logicalOr(acc, acc, a) }})}))...)
}

var sumFloat = reducer[float32]{row: simd.Sum, into: func(acc, a []float32) { simd.Add(acc, acc, a) }}

var maxFloat = reducer[float32]{identity: float32(math.Inf(-1)), row: simd.MaxOf, into: func(acc, a []float32) { simd.Max(acc, acc, a) }}

var minFloat = reducer[float32]{identity: float32(math.Inf(1)), row: slices.Min[[]float32], into: func(acc, a []float32) { simd.Min(acc, acc, a) }}

func sums[T numeric]() reducer[T] {
	return reducer[T]{row: sumOf[T], into: func(acc, a []T) { add(acc, acc, a) }}
}

// sumOf adds up in four parts, which do not wait for each other.
func sumOf[T numeric](a []T) T {
	var s0, s1, s2, s3 T
	for len(a) >= 4 {
		s0 += a[0]
		s1 += a[1]
		s2 += a[2]
		s3 += a[3]
		a = a[4:]
	}
	for _, v := range a {
		s0 += v
	}
	return (s0 + s1) + (s2 + s3)
}

func products[T numeric]() reducer[T] {
	return reducer[T]{identity: 1, row: productOf[T], into: func(acc, a []T) { mul(acc, acc, a) }}
}

func productOf[T numeric](a []T) T {
	p := T(1)
	for _, v := range a {
		p *= v
	}
	return p
}

func maxima[T ordered](least T) reducer[T] {
	return reducer[T]{identity: least, row: slices.Max[[]T], into: func(acc, a []T) { maximum(acc, acc, a) }}
}

func minima[T ordered](greatest T) reducer[T] {
	return reducer[T]{identity: greatest, row: slices.Min[[]T], into: func(acc, a []T) { minimum(acc, acc, a) }}
}

// averaged divides sums by the number of elements; the mean of nothing is NaN.
func averaged[T floating](r reducer[T]) reducer[T] {
	r.last = func(out []T, n int) {
		for i := range out {
			out[i] /= T(n)
		}
	}
	return r
}

// averagedComplex is averaged for complex numbers, of which the mean of nothing is 0.
func averagedComplex[T complexNum](r reducer[T]) reducer[T] {
	r.last = func(out []T, n int) {
		if n == 0 {
			return // the sums are 0
		}
		for i := range out {
			out[i] /= T(complex(float64(n), 0))
		}
	}
	return r
}

// averagedInt truncates. A count that is zero in the element type gives zero.
func averagedInt[T integer](r reducer[T]) reducer[T] {
	r.last = func(out []T, n int) {
		for i := range out {
			if T(n) == 0 {
				out[i] = 0
			} else {
				out[i] /= T(n)
			}
		}
	}
	return r
}

// wideMean is Mean of integers whose sums are made of int64s, so that they do not overflow.
func wideMean[T int8 | int16 | int32 | uint8 | uint16 | uint32]() reduceEntry {
	wide, dtype := reduceRow(averagedInt(sums[int64]())), dtypeOf[T]()
	return reduceEntry{dtype, func(c *Construction) (any, error) {
		inner, err := wide.construct(c)
		if err != nil {
			return nil, err
		}
		return &viaInt64[T]{inner.(Kernel), dtype}, nil
	}}
}

// viaInt64 is a kernel of int64s for input and output 0 of a narrower type.
type viaInt64[T int8 | int16 | int32 | uint8 | uint16 | uint32] struct {
	inner Kernel
	dtype tensor.DType
}

func (k *viaInt64[T]) Compute(ctx *Context) error {
	if err := checkType(ctx, 0, k.dtype); err != nil {
		return err
	}
	in := ctx.Input(0)
	sub := *ctx
	sub.Inputs, sub.Outputs = slices.Clone(ctx.Inputs), make([]Value, len(ctx.Outputs))
	wide, err := tensor.New(ctx.Device.Pool(), tensor.Int64, in.Shape())
	if err != nil {
		return err
	}
	defer wide.Release()
	defer func() { sub.Outputs[0].Release() }()
	convert(viewOf[int64](wide), viewOf[T](in))
	sub.Inputs[0].Tensor = wide
	if err := k.inner.Compute(&sub); err != nil {
		return err
	}
	result := sub.Outputs[0].Tensor
	out, err := ctx.Allocate(0, k.dtype, result.Shape())
	if err != nil {
		return err
	}
	convert(viewOf[T](out), viewOf[int64](result))
	return nil
}

// norms are the square roots of sums of squares.
func norms[T any](sum reducer[T], square, sqrt func(dst, a []T)) reducer[T] {
	sum.first = square
	sum.last = func(out []T, _ int) { sqrt(out, out) }
	return sum
}

func normsInt[T integer]() reducer[T] {
	return norms(sums[T](), square[T], func(dst, a []T) {
		for i, v := range a {
			dst[i] = T(math.Sqrt(float64(v)))
		}
	})
}

func squaredAbs[T complexNum](dst, a []T) {
	for i, v := range a {
		c := complex128(v)
		dst[i] = T(c * cmplx.Conj(c))
	}
}

func sqrtComplex[T complexNum](dst, a []T) {
	for i, v := range a {
		dst[i] = T(cmplx.Sqrt(complex128(v)))
	}
}
