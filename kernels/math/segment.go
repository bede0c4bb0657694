package math

import (
	"fmt"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// segmentKernel is the Segment and UnsortedSegment ops: rows of the data with the same segment id
// are reduced into the output's row of that number.
type segmentKernel[T any] struct {
	reduce.Reducer[T]
	dtype tensor.DType
	// unsorted ops take the number of segments as an input and leave out rows of negative ids;
	// the sorted ones have ids that do not decrease and take the last one's number.
	unsorted bool
	// empty is what rows get that no id names.
	empty T
	// mean divides by the number of rows, where it is there.
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
	dst, src := element.ViewOf[T](out), element.ViewOf[T](data)
	seen := make([]int, segments)
	for i, s := range rows {
		if s < 0 {
			continue
		}
		to, from := dst[s*width:(s+1)*width], src[i*width:(i+1)*width]
		if seen[s] == 0 {
			copy(to, from)
		} else {
			k.Into(to, from)
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
	if count.Len() != 1 {
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

// segmentOf checks the ids and gives the segment of each row, negative for none.
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
func segmentRows[T any](table *kernels.Table, op string, unsorted bool, r reduce.Reducer[T], empty T, mean func(row []T, n int)) {
	dtype := element.DTypeOf[T]()
	k := &segmentKernel[T]{Reducer: r, dtype: dtype, unsorted: unsorted, empty: empty, mean: mean}
	table.Add(kernels.Def{Op: op, Types: map[string][]tensor.DType{"T": {dtype}}, New: func(*kernels.Construction) (any, error) { return k, nil }})
}

func segmentSums[T element.Numeric](table *kernels.Table) {
	segmentRows(table, "SegmentSum", false, reduce.Sums[T](), 0, nil)
	segmentRows(table, "SegmentProd", false, products[T](), 1, nil)
	segmentRows(table, "UnsortedSegmentSum", true, reduce.Sums[T](), 0, nil)
	segmentRows(table, "UnsortedSegmentProd", true, products[T](), 1, nil)
}

func segmentMeans[T element.Integer | element.Floating](table *kernels.Table) {
	segmentRows(table, "SegmentMean", false, reduce.Sums[T](), 0, func(row []T, n int) {
		for i := range row {
			if T(n) == 0 { // as many rows as the element type has values
				row[i] = 0
			} else {
				row[i] /= T(n)
			}
		}
	})
}

func complexSegmentMeans[T element.ComplexNum](table *kernels.Table) {
	segmentRows(table, "SegmentMean", false, reduce.Sums[T](), 0, func(row []T, n int) {
		for i := range row {
			row[i] /= T(complex(float64(n), 0))
		}
	})
}

func segmentExtremes[T element.Ordered](table *kernels.Table, least, greatest T) {
	segmentSums[T](table)
	segmentMeans[T](table)
	segmentRows(table, "SegmentMax", false, maxima(least), 0, nil)
	segmentRows(table, "SegmentMin", false, minima(greatest), 0, nil)
	segmentRows(table, "UnsortedSegmentMax", true, maxima(least), least, nil)
	segmentRows(table, "UnsortedSegmentMin", true, minima(greatest), greatest, nil)
}

// segmentHalves makes the rows of a half type by way of float; greatest is its greatest number.
func segmentHalves(table *kernels.Table, half tensor.DType, greatest float32) {
	row := func(op string, unsorted bool, r reduce.Reducer[float32], empty float32, mean func(row []float32, n int)) {
		k := &halves.ViaFloat{Inner: &segmentKernel[float32]{r, tensor.Float32, unsorted, empty, mean}, Half: half}
		table.Add(kernels.Def{Op: op, Types: map[string][]tensor.DType{"T": {half}}, New: func(*kernels.Construction) (any, error) { return k, nil }})
	}
	row("SegmentSum", false, reduce.SumFloat, 0, nil)
	row("SegmentProd", false, products[float32](), 1, nil)
	row("SegmentMean", false, reduce.SumFloat, 0, func(row []float32, n int) { simd.DivScalar(row, row, float32(n)) })
	row("SegmentMax", false, reduce.MaxFloat, 0, nil)
	row("SegmentMin", false, reduce.MinFloat, 0, nil)
	row("UnsortedSegmentSum", true, reduce.SumFloat, 0, nil)
	row("UnsortedSegmentProd", true, products[float32](), 1, nil)
	row("UnsortedSegmentMax", true, reduce.MaxFloat, -greatest, nil)
	row("UnsortedSegmentMin", true, reduce.MinFloat, greatest, nil)
}
