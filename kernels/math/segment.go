package math

import (
	"fmt"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// segmentKernel implements the Segment and UnsortedSegment ops. Rows of the data with the same segment id are reduced into the output's row
// of that index.
type segmentKernel[T any] struct {
	reduce.Reducer[T]
	dtype tensor.DType
	// unsorted ops take the number of segments as an input and drop rows with negative ids. Sorted ops have non-decreasing ids, of which
	// the last one determines the number of segments.
	unsorted bool
	// empty fills the rows that no id names.
	empty T
	// mean divides a row by the number of its terms. It may be nil.
	mean func(row []T, n int)
}

func (k *segmentKernel[T]) Compute(ctx *kernels.Context) error {
	data, ids := ctx.Input(0), ctx.Input(1)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	segments, inner, err := segmentShape(ctx, k.unsorted)
	if err != nil {
		return err
	}
	var rows []int
	if !k.unsorted || data.Len() > 0 { // without data TensorFlow does not read the ids either
		if rows, err = segmentOf(ids, segments, k.unsorted); err != nil {
			return err
		}
	}
	out, err := ctx.Allocate(0, k.dtype, append(tensor.Shape{segments}, inner...))
	if err != nil || out.Len() == 0 {
		return err
	}
	width := inner.Elements()
	dst, src := element.ViewOf[T](out), element.ViewOf[T](data)
	m := ctx.Meter()
	defer m.Done()
	seen, err := kernels.Scratch[bool](&m, int(segments))
	if err != nil {
		return err
	}
	element.Fill(dst, k.empty)
	for i, s := range rows {
		if s < 0 {
			continue
		}
		to, from := dst[s*width:(s+1)*width], src[i*width:(i+1)*width]
		if seen[s] {
			k.Into(to, from)
		} else {
			copy(to, from)
			seen[s] = true
		}
	}
	if k.mean == nil {
		return nil
	}
	counts, err := kernels.Scratch[int](&m, int(segments))
	if err != nil {
		return err
	}
	for _, s := range rows {
		if s >= 0 {
			counts[s]++
		}
	}
	for s, n := range counts {
		if n > 0 {
			k.mean(dst[s*width:(s+1)*width], n)
		}
	}
	return nil
}

// segmentShape returns the number of segments and the shape of a row.
func segmentShape(ctx *kernels.Context, unsorted bool) (segments int64, inner tensor.Shape, err error) {
	data, ids := ctx.Input(0), ctx.Input(1)
	if !unsorted {
		if data.Rank() == 0 {
			return 0, nil, status.InvalidArgumentf("Shape must be at least rank 1")
		}
		if ids.Rank() != 1 {
			return 0, nil, status.InvalidArgumentf("segment_ids should be a vector.")
		}
		if ids.Len() != data.Dim(0) {
			return 0, nil, status.InvalidArgumentf("segment_ids should be the same size as dimension 0 of input.")
		}
		if ids.Len() > 0 {
			last, err := args.IntAt(ids, ids.Len()-1)
			if err != nil {
				return 0, nil, err
			}
			if last < 0 || last == math.MaxInt64 {
				return 0, nil, status.InvalidArgumentf("segment ids must be >= 0")
			}
			segments = last + 1
		}
		return segments, data.Shape()[1:], nil
	}
	count := ctx.Input(2)
	if count.Rank() != 0 {
		return 0, nil, status.InvalidArgumentf("num_segments should be a scalar, not shape %v", count.Shape())
	}
	if segments, err = args.IntAt(count, 0); err != nil {
		return 0, nil, err
	}
	if segments < 0 {
		return 0, nil, status.InvalidArgumentf("Input num_segments == %d must not be negative.", segments)
	}
	if s := ids.Shape(); len(s) > data.Rank() || !s.Equal(data.Shape()[:len(s)]) {
		return 0, nil, status.InvalidArgumentf("data.shape = %v does not start with segment_ids.shape = %v", data.Shape(), s)
	}
	return segments, data.Shape()[ids.Rank():], nil
}

// segmentOf checks the ids and returns the segment of each row, negative for dropped rows.
func segmentOf(ids *tensor.Tensor, segments int64, unsorted bool) ([]int, error) {
	rows := make([]int, ids.Len())
	for i := range rows {
		id, err := args.IntAt(ids, i)
		if err != nil {
			return nil, err
		}
		next := id
		if i+1 < len(rows) {
			if next, err = args.IntAt(ids, i+1); err != nil {
				return nil, err
			}
		}
		switch {
		case unsorted && id < 0:
		case unsorted && id >= segments:
			return nil, status.InvalidArgumentf("segment_ids%s = %d is out of range [0, %d)", place(ids.Shape(), i), id, segments)
		case !unsorted && next < id:
			return nil, status.InvalidArgumentf("segment ids are not increasing")
		case !unsorted && (id < 0 || id >= segments):
			return nil, status.InvalidArgumentf("Segment id %d out of range [0, %d), possibly because 'segment_ids' input is not sorted.", id, segments)
		}
		rows[i] = int(id)
	}
	return rows, nil
}

// place formats the index of element i of a tensor as TensorFlow does: [1,2].
func place(shape tensor.Shape, i int) string {
	text := ""
	for d := len(shape) - 1; d >= 0; d-- {
		at := fmt.Sprint(int64(i) % shape[d])
		i /= int(shape[d])
		if text != "" {
			at += ","
		}
		text = at + text
	}
	return "[" + text + "]"
}

// segmentRow returns the row of an op for one element type. empty is the value of segments without rows. mean, if not nil, divides sums.
func segmentRow[T any](unsorted bool, r reduce.Reducer[T], empty T, mean func(row []T, n int)) kernels.Def {
	dtype := element.DTypeOf[T]()
	k := &segmentKernel[T]{Reducer: r, dtype: dtype, unsorted: unsorted, empty: empty, mean: mean}
	return kernels.Def{Types: dtypes.Only("T", dtype), New: func(*kernels.Construction) (any, error) { return k, nil }}
}

// segmentHalf returns the row of a half type, computed in float32.
func segmentHalf(half tensor.DType, unsorted bool, r reduce.Reducer[float32], empty float32, mean func(row []float32, n int)) kernels.Def {
	k := &halves.ViaFloat{Inner: &segmentKernel[float32]{r, tensor.Float32, unsorted, empty, mean}, Half: half}
	return kernels.Def{Types: dtypes.Only("T", half), New: func(*kernels.Construction) (any, error) { return k, nil }}
}

func segmentSums(unsorted bool) []kernels.Def {
	return []kernels.Def{
		segmentSum[float32](unsorted), segmentSum[float64](unsorted),
		segmentSum[int8](unsorted), segmentSum[int16](unsorted), segmentSum[int32](unsorted), segmentSum[int64](unsorted),
		segmentSum[uint8](unsorted), segmentSum[uint16](unsorted), segmentSum[uint32](unsorted), segmentSum[uint64](unsorted),
		segmentHalf(tensor.Float16, unsorted, reduce.SumFloat, 0, nil), segmentHalf(tensor.BFloat16, unsorted, reduce.SumFloat, 0, nil),
		segmentSum[complex64](unsorted), segmentSum[complex128](unsorted),
	}
}

func segmentSum[T element.Numeric](unsorted bool) kernels.Def {
	return segmentRow(unsorted, reduce.Sums[T](), 0, nil)
}

func segmentProducts(unsorted bool) []kernels.Def {
	return []kernels.Def{
		segmentProduct[float32](unsorted), segmentProduct[float64](unsorted),
		segmentProduct[int8](unsorted), segmentProduct[int16](unsorted), segmentProduct[int32](unsorted), segmentProduct[int64](unsorted),
		segmentProduct[uint8](unsorted), segmentProduct[uint16](unsorted), segmentProduct[uint32](unsorted), segmentProduct[uint64](unsorted),
		segmentHalf(tensor.Float16, unsorted, products[float32](), 1, nil), segmentHalf(tensor.BFloat16, unsorted, products[float32](), 1, nil),
		segmentProduct[complex64](unsorted), segmentProduct[complex128](unsorted),
	}
}

func segmentProduct[T element.Numeric](unsorted bool) kernels.Def {
	return segmentRow(unsorted, products[T](), 1, nil)
}

func segmentMeans() []kernels.Def {
	half := func(row []float32, n int) { simd.DivScalar(row, row, float32(n)) }
	return []kernels.Def{
		segmentMean[float32](), segmentMean[float64](),
		segmentMean[int8](), segmentMean[int16](), segmentMean[int32](), segmentMean[int64](),
		segmentMean[uint8](), segmentMean[uint16](), segmentMean[uint32](), segmentMean[uint64](),
		segmentHalf(tensor.Float16, false, reduce.SumFloat, 0, half), segmentHalf(tensor.BFloat16, false, reduce.SumFloat, 0, half),
		segmentMeanComplex[complex64](), segmentMeanComplex[complex128](),
	}
}

func segmentMean[T element.Integer | element.Floating]() kernels.Def {
	return segmentRow(false, reduce.Sums[T](), 0, func(row []T, n int) {
		for i := range row {
			if T(n) == 0 { // the count is a multiple of the number of values that T has
				row[i] = 0
			} else {
				row[i] /= T(n)
			}
		}
	})
}

func segmentMeanComplex[T element.ComplexNum]() kernels.Def {
	return segmentRow(false, reduce.Sums[T](), 0, func(row []T, n int) {
		for i := range row {
			row[i] /= T(complex(float64(n), 0))
		}
	})
}

// greatestHalf and greatestBFloat are the greatest finite numbers of the half types.
const greatestHalf = 65504

var greatestBFloat = element.BFloat16(0x7f7f).Float()

// segmentMaxima and segmentMinima return the rows of the extremes. In an empty unsorted segment the maximum is the lowest finite number and
// the minimum the highest; in an empty sorted one both are 0.
func segmentMaxima(unsorted bool) []kernels.Def {
	return []kernels.Def{
		segmentMax[float32](unsorted, -math.MaxFloat32), segmentMax[float64](unsorted, -math.MaxFloat64),
		segmentMax[int8](unsorted, math.MinInt8), segmentMax[int16](unsorted, math.MinInt16),
		segmentMax[int32](unsorted, math.MinInt32), segmentMax[int64](unsorted, math.MinInt64),
		segmentMax[uint8](unsorted, 0), segmentMax[uint16](unsorted, 0), segmentMax[uint32](unsorted, 0), segmentMax[uint64](unsorted, 0),
		segmentHalf(tensor.Float16, unsorted, reduce.MaxFloat, emptySegment[float32](unsorted, -greatestHalf), nil),
		segmentHalf(tensor.BFloat16, unsorted, reduce.MaxFloat, emptySegment(unsorted, -greatestBFloat), nil),
	}
}

func segmentMax[T element.Ordered](unsorted bool, least T) kernels.Def {
	return segmentRow(unsorted, maxima(least), emptySegment(unsorted, least), nil)
}

func segmentMinima(unsorted bool) []kernels.Def {
	return []kernels.Def{
		segmentMin[float32](unsorted, math.MaxFloat32), segmentMin[float64](unsorted, math.MaxFloat64),
		segmentMin[int8](unsorted, math.MaxInt8), segmentMin[int16](unsorted, math.MaxInt16),
		segmentMin[int32](unsorted, math.MaxInt32), segmentMin[int64](unsorted, math.MaxInt64),
		segmentMin[uint8](unsorted, math.MaxUint8), segmentMin[uint16](unsorted, math.MaxUint16),
		segmentMin[uint32](unsorted, math.MaxUint32), segmentMin[uint64](unsorted, math.MaxUint64),
		segmentHalf(tensor.Float16, unsorted, reduce.MinFloat, emptySegment[float32](unsorted, greatestHalf), nil),
		segmentHalf(tensor.BFloat16, unsorted, reduce.MinFloat, emptySegment(unsorted, greatestBFloat), nil),
	}
}

func segmentMin[T element.Ordered](unsorted bool, greatest T) kernels.Def {
	return segmentRow(unsorted, minima(greatest), emptySegment(unsorted, greatest), nil)
}

func emptySegment[T element.Ordered](unsorted bool, end T) T {
	if unsorted {
		return end
	}
	return 0
}
