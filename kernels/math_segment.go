package kernels

import (
	"fmt"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/simd"
)

// segmentKernel is the Segment and UnsortedSegment ops: rows of the data with the same segment id
// are reduced into the output's row of that number.
type segmentKernel[T any] struct {
	reducer[T]
	dtype tensor.DType
	// unsorted ops take the number of segments as an input and leave out rows of negative ids;
	// the sorted ones have ids that do not decrease and take the last one's number.
	unsorted bool
	// empty is what rows get that no id names.
	empty T
	// mean divides by the number of rows, where it is there.
	mean func(row []T, n int)
}

func (k *segmentKernel[T]) Compute(ctx *Context) error {
	data, ids := ctx.Input(0), ctx.Input(1)
	if err := checkType(ctx, 0, k.dtype); err != nil {
		return err
	}
	segments, inner, err := segmentShape(ctx, k.unsorted)
	if err != nil {
		return err
	}
	var rows []int
	if !k.unsorted || data.Len() > 0 { // without data TensorFlow does not look at the ids, either
		if rows, err = segmentOf(ids, segments, k.unsorted); err != nil {
			return err
		}
	}
	out, err := ctx.Allocate(0, k.dtype, append(tensor.Shape{segments}, inner...))
	if err != nil || out.Len() == 0 {
		return err
	}
	width := inner.Elements()
	dst, src := viewOf[T](out), viewOf[T](data)
	seen := make([]int, segments)
	for i, s := range rows {
		if s < 0 {
			continue
		}
		to, from := dst[s*width:(s+1)*width], src[i*width:(i+1)*width]
		if seen[s] == 0 {
			copy(to, from)
		} else {
			k.into(to, from)
		}
		seen[s]++
	}
	for s, n := range seen {
		row := dst[s*width : (s+1)*width]
		if n == 0 {
			for i := range row {
				row[i] = k.empty
			}
		} else if k.mean != nil {
			k.mean(row, n)
		}
	}
	return nil
}

// segmentShape gives the number of segments and the shape of a row.
func segmentShape(ctx *Context, unsorted bool) (segments int64, inner tensor.Shape, err error) {
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
			last, err := intAt(ids, ids.Len()-1)
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
	if count.Len() != 1 {
		return 0, nil, status.InvalidArgumentf("num_segments should be a scalar, not shape %v", count.Shape())
	}
	if segments, err = intAt(count, 0); err != nil {
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

// segmentOf checks the ids and gives the segment of each row, negative for none.
func segmentOf(ids *tensor.Tensor, segments int64, unsorted bool) ([]int, error) {
	rows := make([]int, ids.Len())
	for i := range rows {
		id, err := intAt(ids, i)
		if err != nil {
			return nil, err
		}
		next := id
		if i+1 < len(rows) {
			if next, err = intAt(ids, i+1); err != nil {
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

// place is the index of element i of a tensor, as TensorFlow writes it: [1,2].
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

// segmentRows makes the rows of an op for one element type.
func segmentRows[T any](op string, unsorted bool, r reducer[T], empty T, mean func(row []T, n int)) {
	dtype := dtypeOf[T]()
	k := &segmentKernel[T]{reducer: r, dtype: dtype, unsorted: unsorted, empty: empty, mean: mean}
	Register(Def{Op: op, Types: map[string][]tensor.DType{"T": {dtype}}, New: func(*Construction) (any, error) { return k, nil }})
}

func segmentSums[T numeric]() {
	segmentRows("SegmentSum", false, sums[T](), 0, nil)
	segmentRows("SegmentProd", false, products[T](), 1, nil)
	segmentRows("UnsortedSegmentSum", true, sums[T](), 0, nil)
	segmentRows("UnsortedSegmentProd", true, products[T](), 1, nil)
}

func segmentMeans[T integer | floating]() {
	segmentRows("SegmentMean", false, sums[T](), 0, func(row []T, n int) {
		for i := range row {
			if T(n) == 0 { // as many rows as the element type has values
				row[i] = 0
			} else {
				row[i] /= T(n)
			}
		}
	})
}

func complexSegmentMeans[T complexNum]() {
	segmentRows("SegmentMean", false, sums[T](), 0, func(row []T, n int) {
		for i := range row {
			row[i] /= T(complex(float64(n), 0))
		}
	})
}

func segmentExtremes[T ordered](least, greatest T) {
	segmentSums[T]()
	segmentMeans[T]()
	segmentRows("SegmentMax", false, maxima(least), 0, nil)
	segmentRows("SegmentMin", false, minima(greatest), 0, nil)
	segmentRows("UnsortedSegmentMax", true, maxima(least), least, nil)
	segmentRows("UnsortedSegmentMin", true, minima(greatest), greatest, nil)
}

// segmentHalves makes the rows of a half type by way of float; greatest is its greatest number.
func segmentHalves(half tensor.DType, greatest float32) {
	row := func(op string, unsorted bool, r reducer[float32], empty float32, mean func(row []float32, n int)) {
		k := &viaFloat{inner: &segmentKernel[float32]{r, tensor.Float32, unsorted, empty, mean}, half: half}
		Register(Def{Op: op, Types: map[string][]tensor.DType{"T": {half}}, New: func(*Construction) (any, error) { return k, nil }})
	}
	row("SegmentSum", false, sumFloat, 0, nil)
	row("SegmentProd", false, products[float32](), 1, nil)
	row("SegmentMean", false, sumFloat, 0, func(row []float32, n int) { simd.DivScalar(row, row, float32(n)) })
	row("SegmentMax", false, maxFloat, 0, nil)
	row("SegmentMin", false, minFloat, 0, nil)
	row("UnsortedSegmentSum", true, sumFloat, 0, nil)
	row("UnsortedSegmentProd", true, products[float32](), 1, nil)
	row("UnsortedSegmentMax", true, maxFloat, -greatest, nil)
	row("UnsortedSegmentMin", true, minFloat, greatest, nil)
}

func init() {
	// Of an empty segment the maximum is the lowest finite number.
	segmentExtremes[float32](-math.MaxFloat32, math.MaxFloat32)
	segmentExtremes[float64](-math.MaxFloat64, math.MaxFloat64)
	segmentExtremes[int8](math.MinInt8, math.MaxInt8)
	segmentExtremes[int16](math.MinInt16, math.MaxInt16)
	segmentExtremes[int32](math.MinInt32, math.MaxInt32)
	segmentExtremes[int64](math.MinInt64, math.MaxInt64)
	segmentExtremes[uint8](0, math.MaxUint8)
	segmentExtremes[uint16](0, math.MaxUint16)
	segmentExtremes[uint32](0, math.MaxUint32)
	segmentExtremes[uint64](0, math.MaxUint64)
	segmentHalves(tensor.Float16, 65504)
	segmentHalves(tensor.BFloat16, bfloat16(0x7f7f).float())
	segmentSums[complex64]()
	complexSegmentMeans[complex64]()
	segmentSums[complex128]()
	complexSegmentMeans[complex128]()
}
