package math

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// segmentScale returns the factor that the sum of n rows is multiplied by.
type segmentScale func(n int) float64

func unscaled(int) float64 { return 1 }

func scaledMean(n int) float64 { return 1 / float64(n) }

func scaledSqrtN(n int) float64 { return 1 / math.Sqrt(float64(n)) }

// sparseSegmentKernel implements the SparseSegment reductions: the rows of the data that the indices name are summed by segment. The
// segment ids do not decrease.
type sparseSegmentKernel[T element.Integer | element.Floating] struct {
	dtype tensor.DType
	scale segmentScale
	add   func(dst, a, b []T)
	// counted ops take the number of segments as input 3.
	counted bool
}

func (k *sparseSegmentKernel[T]) Compute(ctx *kernels.Context) error {
	data, indices, ids := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	rows, err := k.segments(ctx)
	if err != nil {
		return err
	}
	shape := append(tensor.Shape{rows}, data.Shape()[1:]...)
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	at, err1 := args.ReadIndices(indices)
	segment, err2 := args.ReadIndices(ids)
	defer at.Free()
	defer segment.Free()
	if err := args.FirstError(err1, err2, checkOrder(data, at.V, segment.V, rows)); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, src := element.ViewOf[T](out), element.ViewOf[T](data)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	return k.sum(ctx, dst, src, at.V, segment.V, out.Len()/int(rows))
}

// sum adds up rows of width elements.
func (k *sparseSegmentKernel[T]) sum(ctx *kernels.Context, dst, src []T, at, segment []int64, width int) error {
	end := ctx.Lookout()
	for i := 0; i < len(at); {
		s, n := int(segment[i]), i
		to := dst[s*width : (s+1)*width]
		for ; i < len(at) && int(segment[i]) == s; i++ {
			if err := end.After(segmentTime + width); err != nil {
				return err
			}
			row := int(at[i])
			k.add(to, to, src[row*width:(row+1)*width])
		}
		if f := k.scale(i - n); f != 1 {
			for j, v := range to {
				to[j] = T(float64(v) * f)
			}
		}
	}
	return nil
}

// segmentTime is the time in nanoseconds to find a row, beside that for its elements.
const segmentTime = 8

// segments checks the shapes and returns the number of rows of the output.
func (k *sparseSegmentKernel[T]) segments(ctx *kernels.Context) (int64, error) {
	data, indices, ids := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if data.Rank() == 0 {
		return 0, status.InvalidArgumentf("Shape must be at least rank 1")
	}
	if indices.Rank() != 1 {
		return 0, status.InvalidArgumentf("indices should be a vector.")
	}
	if ids.Rank() != 1 {
		return 0, status.InvalidArgumentf("segment_ids should be a vector.")
	}
	if indices.Len() != ids.Len() {
		return 0, status.InvalidArgumentf("segment_ids and indices should have same size.")
	}
	rows := int64(0)
	if ids.Len() > 0 {
		last, err := args.IntAt(ids, ids.Len()-1)
		if err != nil {
			return 0, err
		}
		if last < 0 || last == math.MaxInt64 {
			return 0, status.InvalidArgumentf("segment ids must be >= 0")
		}
		rows = last + 1
	}
	if !k.counted {
		return rows, nil
	}
	count := ctx.Input(3)
	if count.Rank() != 0 {
		return 0, status.InvalidArgumentf("num_segments should be a scalar, not shape %v", count.Shape())
	}
	n, err := args.IntAt(count, 0)
	if err == nil && n < rows {
		err = status.InvalidArgumentf("segment ids must be < num_segments")
	}
	return n, err
}

// checkOrder rejects indices and ids that are out of range, and ids that decrease.
func checkOrder(data *tensor.Tensor, at, segment []int64, rows int64) error {
	for i, id := range segment {
		switch index := at[i]; {
		case i+1 < len(segment) && segment[i+1] < id:
			return status.InvalidArgumentf("segment ids are not increasing")
		case id < 0 || id >= rows:
			return status.InvalidArgumentf("Segment id %d out of range [0, %d), possibly because 'segment_ids' input is not sorted.", id, rows)
		case index < 0 || index >= data.Shape()[0]:
			return status.InvalidArgumentf("Bad: indices[%d] == %d out of range [0, %d)", i, index, data.Dim(0))
		}
	}
	return nil
}

// sparseSegmentGradKernel implements the gradients of the SparseSegment reductions: each row of the data receives the gradients of the
// segments that it was added to.
type sparseSegmentGradKernel[T element.Floating] struct {
	dtype tensor.DType
	scale segmentScale
	// named ops output only the rows that indices name, and the indices of those rows.
	named bool
}

// segmentRows holds pairs of a row and the segment that it belongs to, and the sizes of the segments.
type segmentRows struct {
	at, segment []int
	sizes       []int // of each segment
}

// Compute implements kernels.Kernel.
func (k *sparseSegmentGradKernel[T]) Compute(ctx *kernels.Context) error {
	grad := ctx.Input(0)
	rows, err := k.check(ctx)
	if err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	var s segmentRows
	if rows > 0 {
		if s, err = pairsOf(ctx, &m, rows); err != nil {
			return err
		}
	}
	if k.named {
		names, err := s.rename(&m)
		if err != nil {
			return err
		}
		if err := args.OutputInts(ctx, 1, ctx.Input(1).DType(), names); err != nil {
			return err
		}
		rows = int64(len(names))
	}
	out, err := ctx.Allocate(0, k.dtype, append(tensor.Shape{rows}, grad.Shape()[1:]...))
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, g := element.ViewOf[T](out), element.ViewOf[T](grad)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	width := out.Len() / int(rows)
	end := ctx.Lookout()
	for i, row := range s.at {
		if err := end.After(segmentTime + width); err != nil {
			return err
		}
		f := T(k.scale(s.sizes[s.segment[i]]))
		from := g[s.segment[i]*width : (s.segment[i]+1)*width]
		for j, v := range from {
			dst[row*width+j] += v * f
		}
	}
	return nil
}

// check checks the shapes of the inputs and returns the number of rows of the data.
func (k *sparseSegmentGradKernel[T]) check(ctx *kernels.Context) (int64, error) {
	grad, indices, ids, count := ctx.Input(0), ctx.Input(1), ctx.Input(2), ctx.Input(3)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return 0, err
	}
	name := "output_dim0"
	if k.named {
		name = "dense_output_dim0"
	}
	switch {
	case indices.Rank() != 1:
		return 0, status.InvalidArgumentf("indices should be a vector.")
	case ids.Rank() != 1:
		return 0, status.InvalidArgumentf("segment_ids should be a vector.")
	case count.Rank() != 0:
		return 0, status.InvalidArgumentf("%s should be a scalar.", name)
	case indices.Len() != ids.Len():
		return 0, status.InvalidArgumentf("segment_ids and indices should have same size.")
	case grad.Rank() == 0:
		return 0, status.InvalidArgumentf("Index must be less than 0, got 0") // sic: TensorFlow's words for a dimension
	}
	rows, err := args.IntAt(count, 0)
	if err == nil && rows < 0 {
		err = status.InvalidArgumentf("Expected a non-negative size, got %d", rows)
	}
	return rows, err
}

// pairsOf reads the indices, which must be below rows, and the segment ids.
func pairsOf(ctx *kernels.Context, m *kernels.Meter, rows int64) (s segmentRows, err error) {
	grad, indices, ids := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	n := ids.Len()
	if s.at, err = kernels.Scratch[int](m, n); err != nil {
		return s, err
	}
	if s.segment, err = kernels.Scratch[int](m, n); err != nil {
		return s, err
	}
	if s.sizes, err = kernels.Scratch[int](m, grad.Dim(0)); err != nil {
		return s, err
	}
	if n > 0 {
		if last, err := args.IntAt(ids, n-1); err != nil || last >= int64(len(s.sizes)) {
			return s, args.FirstError(err, status.InvalidArgumentf("Invalid number of segments"))
		}
	}
	end := ctx.Lookout()
	for i := range n {
		if err := end.After(2 * segmentTime); err != nil {
			return s, err
		}
		index, err1 := args.IntAt(indices, i)
		id, err2 := args.IntAt(ids, i)
		if err := args.FirstError(err1, err2); err != nil {
			return s, err
		}
		if index < 0 || index >= rows {
			return s, status.InvalidArgumentf("Index %d out of range [0, %d).", index, rows)
		}
		if id < 0 || id >= int64(len(s.sizes)) {
			return s, status.InvalidArgumentf("Segment id %d out of range [0, %d).", id, len(s.sizes))
		}
		s.at[i], s.segment[i] = int(index), int(id)
		s.sizes[id]++
	}
	return s, nil
}

// rename renumbers the rows that indices name, in ascending order, and returns their original numbers.
func (s *segmentRows) rename(m *kernels.Meter) ([]int64, error) {
	names, err := kernels.Scratch[int64](m, len(s.at))
	if err != nil {
		return nil, err
	}
	for i, row := range s.at {
		names[i] = int64(row)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, row := range s.at {
		s.at[i], _ = slices.BinarySearch(names, int64(row))
	}
	return names, nil
}

// sparseSegments returns the rows of an op for floats. If counted, the op has an input for the number of segments. SparseSegmentSum and its
// variants also have the rows of sparseIntegers.
func sparseSegments(scale segmentScale, counted bool) []kernels.Def {
	return append(sparseSegmentBy(simd.Add, scale, counted), sparseSegmentOf[float64](scale, counted)...)
}

func sparseIntegers(scale segmentScale, counted bool) []kernels.Def {
	return slices.Concat(sparseSegmentOf[int8](scale, counted), sparseSegmentOf[int16](scale, counted),
		sparseSegmentOf[int32](scale, counted), sparseSegmentOf[int64](scale, counted),
		sparseSegmentOf[uint8](scale, counted), sparseSegmentOf[uint16](scale, counted),
		sparseSegmentOf[uint32](scale, counted), sparseSegmentOf[uint64](scale, counted))
}

func sparseSegmentOf[T element.Integer | element.Floating](scale segmentScale, counted bool) []kernels.Def {
	return sparseSegmentBy(elementwise.Add[T], scale, counted)
}

// sparseSegmentBy is sparseSegmentOf with a given function that adds rows.
func sparseSegmentBy[T element.Integer | element.Floating](add func(dst, a, b []T), scale segmentScale, counted bool) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(*kernels.Construction) (any, error) {
		return &sparseSegmentKernel[T]{dtype, scale, add, counted}, nil
	})
}

// sparseSegmentGrads returns the rows of the gradient of such an op.
func sparseSegmentGrads(scale segmentScale, named bool) []kernels.Def {
	return append(sparseSegmentGradOf[float32](scale, named), sparseSegmentGradOf[float64](scale, named)...)
}

func sparseSegmentGradOf[T element.Floating](scale segmentScale, named bool) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(*kernels.Construction) (any, error) {
		return &sparseSegmentGradKernel[T]{dtype, scale, named}, nil
	})
}
