package clustering

import (
	"cmp"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// The numbers of points and centres that are multiplied at once, chosen for the products to fit the cache.
const (
	nearestPoints  = 16
	nearestCenters = 1024
)

// nearestNeighbors returns the k centres nearest to each point, in ascending order of distance, and their squared distances.
func nearestNeighbors(ctx *kernels.Context) error {
	points, centres := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Float32), args.CheckType(ctx, 1, tensor.Float32)); err != nil {
		return err
	}
	if points.Rank() != 2 {
		return status.InvalidArgumentf("Input points should be a matrix.")
	}
	if centres.Rank() != 2 {
		return status.InvalidArgumentf("Input centers should be a matrix.")
	}
	k, err := int64Scalar(ctx, 2, "k")
	if err != nil {
		return err
	}
	n, m, dim := points.Dim(0), centres.Dim(0), points.Dim(1)
	k = min(k, int64(m))
	switch {
	case n == 0:
		return status.InvalidArgumentf("Expected points.rows() > 0.")
	case dim != centres.Dim(1):
		return status.InvalidArgumentf("Expected point_dimensions == center_dimensions: %d vs %d.", dim, centres.Dim(1))
	case k < 0:
		return status.InvalidArgumentf("Expected k >= 0, got %d", k)
	}
	indices, err := ctx.Allocate(0, tensor.Int64, tensor.Shape{int64(n), k})
	if err != nil {
		return err
	}
	distances, err := ctx.Allocate(1, tensor.Float32, tensor.Shape{int64(n), k})
	if err != nil || k == 0 {
		return err
	}
	s := &nearest{
		points: tensor.Of[float32](points), centres: tensor.Of[float32](centres), m: m, dim: dim, k: int(k),
		pointNorms: halfNorms(tensor.Of[float32](points), n, dim), centreNorms: halfNorms(tensor.Of[float32](centres), m, dim),
		indices: tensor.Of[int64](indices), distances: tensor.Of[float32](distances),
	}
	ctx.Parallel(n, nearestPoints, s.search)
	return nil
}

// nearest is a search for the nearest centres.
type nearest struct {
	points, centres         []float32
	pointNorms, centreNorms []float32 // halves of squared lengths
	m, dim, k               int
	indices                 []int64
	distances               []float32
}

// candidate is a centre and half its squared distance from a point, less half the point's squared length.
type candidate struct {
	distance float32
	centre   int
}

func (a candidate) compare(b candidate) int {
	return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.centre, b.centre))
}

// search finds the nearest centres of points lo to hi.
func (s *nearest) search(lo, hi int) {
	products := make([]float32, nearestPoints*min(nearestCenters, s.m))
	best := make([][]candidate, nearestPoints)
	for ; lo < hi; lo += nearestPoints {
		rows := min(nearestPoints, hi-lo)
		for i := range best {
			best[i] = best[i][:0]
		}
		for from := 0; from < s.m; from += nearestCenters {
			width := min(nearestCenters, s.m-from)
			simd.Gemm(nil, false, true, rows, width, s.dim, s.points[lo*s.dim:], s.dim, s.centres[from*s.dim:], s.dim, products, width, false)
			for i := range rows {
				for j, p := range products[i*width : (i+1)*width] {
					best[i] = s.offer(best[i], candidate{s.centreNorms[from+j] - p, from + j})
				}
			}
		}
		for i := range rows {
			slices.SortFunc(best[i], candidate.compare)
			for j, c := range best[i] {
				s.indices[(lo+i)*s.k+j] = int64(c.centre)
				s.distances[(lo+i)*s.k+j] = 2 * (s.pointNorms[lo+i] + c.distance)
			}
		}
	}
}

// offer adds a candidate to a heap of the k best so far. The root of the heap is the worst of them.
func (s *nearest) offer(heap []candidate, c candidate) []candidate {
	if len(heap) < s.k {
		heap = append(heap, c)
		for i := len(heap) - 1; i > 0 && heap[(i-1)/2].compare(heap[i]) < 0; i = (i - 1) / 2 {
			heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
		}
		return heap
	}
	if c.compare(heap[0]) >= 0 {
		return heap
	}
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(heap) && heap[child].compare(heap[child+1]) < 0 {
			child++
		}
		if child >= len(heap) || heap[child].compare(c) <= 0 {
			break
		}
		heap[i], i = heap[child], child
	}
	heap[i] = c
	return heap
}
