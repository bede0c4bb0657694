package image

import (
	"container/heap"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// newSuppressWithOverlaps makes the kernel of NonMaxSuppressionWithOverlaps: it selects boxes by falling score, but none
// that overlaps one selected before by more than a threshold.
func newSuppressWithOverlaps(*kernels.Construction) (any, error) {
	return kernels.Func(func(ctx *kernels.Context) error {
		for i, want := range []tensor.DType{tensor.Float32, tensor.Float32, tensor.Int32, tensor.Float32, tensor.Float32} {
			if err := args.CheckType(ctx, i, want); err != nil {
				return err
			}
		}
		for i, name := range []string{"max_output_size", "overlap_threshold", "score_threshold"} {
			if s := ctx.Input(2 + i).Shape(); len(s) != 0 {
				return status.InvalidArgumentf("%s must be 0-D, got shape %v", name, s)
			}
		}
		overlaps, scores := ctx.Input(0), ctx.Input(1)
		if overlaps.Rank() != 2 {
			return status.InvalidArgumentf("overlaps must be 2-D%v", overlaps.Shape())
		}
		n := overlaps.Dim(0)
		switch {
		case overlaps.Dim(1) != n:
			return status.InvalidArgumentf("overlaps must be square%v", overlaps.Shape())
		case scores.Rank() != 1:
			return status.InvalidArgumentf("scores must be 1-D%v (Shape must be rank 1 but is rank %d)", scores.Shape(), scores.Rank())
		case scores.Dim(0) != n:
			return status.InvalidArgumentf("scores has incompatible shape (Dimensions must be equal, but are %d and %d)", n, scores.Dim(0))
		case n > math.MaxInt32:
			return status.InvalidArgumentf("there are %d boxes, more than an int32 can count", n)
		}
		most := tensor.Of[int32](ctx.Input(2))[0]
		if most < 0 {
			return status.InvalidArgumentf("output size must be non-negative")
		}
		return suppressOverlaps(ctx, int(most))
	}), nil
}

// suppressOverlaps selects at most a number of boxes.
func suppressOverlaps(ctx *kernels.Context, most int) error {
	overlaps, scores := tensor.Of[float32](ctx.Input(0)), tensor.Of[float32](ctx.Input(1))
	limit, least := tensor.Of[float32](ctx.Input(3))[0], tensor.Of[float32](ctx.Input(4))[0]
	n := len(scores)
	meter := ctx.Meter()
	defer meter.Done()
	boxes, err1 := kernels.Scratch[candidate](&meter, n)
	selected, err2 := kernels.Scratch[int32](&meter, min(n, most))
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	queue, selected := candidates(boxes[:0]), selected[:0]
	for i, s := range scores {
		if s > least {
			queue = append(queue, candidate{s, int32(i), 0})
		}
	}
	heap.Init(&queue)
	for len(selected) < most && len(queue) > 0 {
		if err := ctx.Step.Cancellation.Err(); err != nil {
			return err
		}
		next := queue[0]
		score, suppressed := next.compare(overlaps[int(next.box)*n:][:n], selected, limit, least)
		switch {
		case suppressed || score != next.score && !(score > least):
			heap.Pop(&queue)
		case score == next.score:
			selected = append(selected, next.box)
			heap.Pop(&queue)
		default:
			queue[0] = candidate{score, next.box, int32(len(selected))}
			heap.Fix(&queue, 0)
		}
	}
	out, err := ctx.Allocate(0, tensor.Int32, tensor.Shape{int64(len(selected))})
	if err == nil {
		copy(element.ViewOf[int32](out), selected)
	}
	return err
}

// candidate is a box that is not yet selected. It was compared with the first selected boxes already.
type candidate struct {
	score    float32
	box      int32
	compared int32
}

// compare compares the box with those selected since the last time. An overlap that is no number takes the score away
// but does not suppress the box, as in TensorFlow.
func (c candidate) compare(overlaps []float32, selected []int32, limit, least float32) (score float32, suppressed bool) {
	score = c.score
	for j := len(selected) - 1; j >= int(c.compared); j-- {
		overlap := overlaps[selected[j]]
		if overlap > limit {
			return score, true
		}
		if overlap <= limit {
			// TensorFlow's weight is exp(0 · overlap²), which is no number where the square is infinite.
			score *= float32(math.Exp(float64(0 * overlap * overlap)))
		} else {
			score *= 0
		}
		if score <= least {
			break
		}
	}
	return score, false
}

// candidates is a heap with the highest score on top, and the first box of those with the same score.
type candidates []candidate

func (c candidates) Len() int      { return len(c) }
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c candidates) Less(i, j int) bool {
	return c[i].score > c[j].score || c[i].score == c[j].score && c[i].box < c[j].box
}

// Push implements heap.Interface.
func (c *candidates) Push(x any) { *c = append(*c, x.(candidate)) }

// Pop implements heap.Interface.
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
