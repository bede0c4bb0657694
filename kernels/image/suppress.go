package image

import (
	"container/heap"
	"math"

	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// suppression selects boxes in descending order of score. A box that overlaps a selected one by more than limit is omitted or, if soft,
// loses more of its score the more it overlaps. Numbers are rounded to the type of the scores after each step.
type suppression struct {
	scores       []float32
	limit, least float32 // boxes with a score of at most least are omitted
	soft         bool
	sigma        float32
	round        func(float32) float32
	overlap      func(box, selected int32) float32
}

// selectBoxes selects at most most boxes, and also returns their scores.
func (s *suppression) selectBoxes(ctx *kernels.Context, m *kernels.Meter, most int) (boxes []int32, scores []float32, err error) {
	n := len(s.scores)
	waiting, err1 := kernels.Scratch[candidate](m, n)
	boxes, err2 := kernels.Scratch[int32](m, min(n, most))
	scores, err3 := kernels.Scratch[float32](m, min(n, most))
	if err := args.FirstError(err1, err2, err3); err != nil {
		return nil, nil, err
	}
	queue, boxes, scores := candidates(waiting[:0]), boxes[:0], scores[:0]
	for i, v := range s.scores {
		if v > s.least {
			queue = append(queue, candidate{v, int32(i), 0})
		}
	}
	heap.Init(&queue)
	scale := float32(0)
	if s.soft {
		scale = s.round(-0.5 / s.sigma)
	}
	for len(boxes) < most && len(queue) > 0 {
		if err := ctx.Ended(); err != nil {
			return nil, nil, err
		}
		next := queue[0]
		score, suppressed := s.compare(next, boxes, scale)
		switch {
		case suppressed || score != next.score && !(score > s.least):
			heap.Pop(&queue)
		case score == next.score:
			boxes, scores = append(boxes, next.box), append(scores, score)
			heap.Pop(&queue)
		default:
			queue[0] = candidate{score, next.box, int32(len(boxes))}
			heap.Fix(&queue, 0)
		}
	}
	return boxes, scores, nil
}

// compare compares a box with those selected since its last comparison. As in TensorFlow, a NaN overlap discards the score but does not
// suppress the box.
func (s *suppression) compare(c candidate, selected []int32, scale float32) (score float32, suppressed bool) {
	score = c.score
	for j := len(selected) - 1; j >= int(c.compared); j-- {
		overlap := s.round(s.overlap(c.box, selected[j]))
		if !s.soft && overlap > s.limit {
			return score, true
		}
		weight := float32(0)
		if s.soft || overlap <= s.limit {
			// If not soft this is exp(0 · overlap²), which is NaN if the square is infinite.
			weight = s.round(float32(math.Exp(float64(s.round(s.round(scale*overlap) * overlap)))))
		}
		score = s.round(score * weight)
		if score <= s.least {
			break
		}
	}
	return score, false
}

// candidate is a box not selected yet. It was already compared with the first selected boxes.
type candidate struct {
	score    float32
	box      int32
	compared int32
}

// candidates is a heap with the highest score on top; ties go to the first box.
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
