package math

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
)

// reduceRow returns a reduction's constructor for one element type.
func reduceRow[T any](r reduce.Reducer[T]) reduceEntry {
	dtype := element.DTypeOf[T]()
	return reduceEntry{dtype, func(c *kernels.Construction) (any, error) {
		keep, err := c.Attrs().Bool("keep_dims")
		return &reduce.Kernel[T]{Reducer: r, DType: dtype, Keep: keep}, err
	}}
}

type reduceEntry struct {
	dtype     tensor.DType
	construct func(*kernels.Construction) (any, error)
}

func reduceFloats(f32 reduce.Reducer[float32], f64 reduce.Reducer[float64]) []reduceEntry {
	entries := []reduceEntry{reduceRow(f32), reduceRow(f64)}
	for _, half := range halves.Types {
		entries = append(entries, reduceEntry{half, halves.Constructor(half, entries[0].construct)})
	}
	return entries
}

func reduceInts(i8 reduce.Reducer[int8], i16 reduce.Reducer[int16], i32 reduce.Reducer[int32], i64 reduce.Reducer[int64], u8 reduce.Reducer[uint8], u16 reduce.Reducer[uint16], u32 reduce.Reducer[uint32], u64 reduce.Reducer[uint64]) []reduceEntry {
	return []reduceEntry{reduceRow(i8), reduceRow(i16), reduceRow(i32), reduceRow(i64), reduceRow(u8), reduceRow(u16), reduceRow(u32), reduceRow(u64)}
}

func reduceComplex(c64 reduce.Reducer[complex64], c128 reduce.Reducer[complex128]) []reduceEntry {
	return []reduceEntry{reduceRow(c64), reduceRow(c128)}
}

// reduction returns the table rows of a reduction, without its name.
func reduction(sets ...[]reduceEntry) []kernels.Def {
	var defs []kernels.Def
	for _, e := range slices.Concat(sets...) {
		defs = append(defs, kernels.Def{Types: map[string][]tensor.DType{"T": {e.dtype}}, HostInputs: []string{"reduction_indices"}, Expensive: true, New: e.construct})
	}
	return defs
}

func products[T element.Numeric]() reduce.Reducer[T] {
	return reduce.Reducer[T]{Identity: 1, Row: productOf[T], Into: func(acc, a []T) { elementwise.Mul(acc, acc, a) }}
}

func productOf[T element.Numeric](a []T) T {
	p := T(1)
	for _, v := range a {
		p *= v
	}
	return p
}

func maxima[T element.Ordered](least T) reduce.Reducer[T] {
	return reduce.Reducer[T]{Identity: least, Row: slices.Max[[]T], Into: func(acc, a []T) { elementwise.Maximum(acc, acc, a) }}
}

func minima[T element.Ordered](greatest T) reduce.Reducer[T] {
	return reduce.Reducer[T]{Identity: greatest, Row: slices.Min[[]T], Into: func(acc, a []T) { elementwise.Minimum(acc, acc, a) }}
}

// averaged divides sums by the number of elements. The mean of no elements is NaN.
func averaged[T element.Floating](r reduce.Reducer[T]) reduce.Reducer[T] {
	r.Last = func(out []T, n int) {
		for i := range out {
			out[i] /= T(n)
		}
	}
	return r
}

// averagedComplex is averaged for complex numbers, for which the mean of no elements is 0.
func averagedComplex[T element.ComplexNum](r reduce.Reducer[T]) reduce.Reducer[T] {
	r.Last = func(out []T, n int) {
		if n == 0 {
			return // the sums are 0
		}
		for i := range out {
			out[i] /= T(complex(float64(n), 0))
		}
	}
	return r
}

// averagedInt truncates. If the count is zero in the element type, the mean is zero.
func averagedInt[T element.Integer](r reduce.Reducer[T]) reduce.Reducer[T] {
	r.Last = func(out []T, n int) {
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

// wideMean is Mean for integers narrower than 64 bits. It sums in int64 to avoid overflow.
func wideMean[T int8 | int16 | int32 | uint8 | uint16 | uint32]() reduceEntry {
	wide, dtype := reduceRow(averagedInt(reduce.Sums[int64]())), element.DTypeOf[T]()
	return reduceEntry{dtype, func(c *kernels.Construction) (any, error) {
		inner, err := wide.construct(c)
		if err != nil {
			return nil, err
		}
		return &viaInt64[T]{inner.(kernels.Kernel), dtype}, nil
	}}
}

// viaInt64 runs an int64 kernel on a narrower type, by converting input 0 and output 0.
type viaInt64[T int8 | int16 | int32 | uint8 | uint16 | uint32] struct {
	inner kernels.Kernel
	dtype tensor.DType
}

func (k *viaInt64[T]) Compute(ctx *kernels.Context) error {
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	in := ctx.Input(0)
	sub := *ctx
	sub.Inputs, sub.Outputs = slices.Clone(ctx.Inputs), make([]kernels.Value, len(ctx.Outputs))
	wide, err := tensor.New(ctx.Device.Pool(), tensor.Int64, in.Shape())
	if err != nil {
		return err
	}
	defer wide.Release()
	defer func() { sub.Outputs[0].Release() }()
	convertAll(ctx, element.ViewOf[int64](wide), element.ViewOf[T](in))
	sub.Inputs[0].Tensor = wide
	if err := k.inner.Compute(&sub); err != nil {
		return err
	}
	result := sub.Outputs[0].Tensor
	out, err := ctx.Allocate(0, k.dtype, result.Shape())
	if err != nil {
		return err
	}
	convertAll(ctx, element.ViewOf[T](out), element.ViewOf[int64](result))
	return nil
}

// convertAll is element.Convert on as many cores as it is worth, unless the step ends.
func convertAll[B, A element.Integer](ctx *kernels.Context, dst []B, src []A) {
	ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) { element.Convert(dst[lo:hi], src[lo:hi]) })
}

func normsInt[T element.Integer]() reduce.Reducer[T] {
	return reduce.Norms(reduce.Sums[T](), elementwise.Square[T], func(dst, a []T) {
		for i, v := range a {
			dst[i] = T(math.Sqrt(float64(v)))
		}
	})
}

func squaredAbs[T element.ComplexNum](dst, a []T) {
	for i, v := range a {
		c := complex128(v)
		dst[i] = T(c * cmplx.Conj(c))
	}
}

func sqrtComplex[T element.ComplexNum](dst, a []T) {
	for i, v := range a {
		dst[i] = T(cmplx.Sqrt(complex128(v)))
	}
}
