package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// reducePlan says what a reduction over axes comes to.
type reducePlan struct {
	// out is the shape of the result.
	out tensor.Shape
	// groups are the sizes of the input's dimensions, neighbours merged, so that those reduced
	// and the others take turns; firstReduced tells which come first.
	groups       []int
	firstReduced bool

	outMemory   [8]int64
	groupMemory [8]int
}

// trivial tells that every element is reduced by itself.
func (p *reducePlan) trivial() bool {
	return len(p.groups) == 0 || len(p.groups) == 1 && !p.firstReduced
}

// reduced tells whether group i is reduced.
func (p *reducePlan) reduced(i int) bool { return (i%2 == 0) == p.firstReduced }

// make plans the reduction of a tensor of the shape over axes, a tensor of int32 or int64.
// Negative axes count from the end.
func (p *reducePlan) make(shape tensor.Shape, axes *tensor.Tensor, keep bool) error {
	var memory [16]bool
	chosen := memory[:]
	if len(shape) > len(memory) {
		chosen = make([]bool, len(shape))
	}
	for i := range axes.Len() {
		axis, err := intAt(axes, i)
		if err != nil {
			return err
		}
		rank := int64(len(shape))
		if axis < -rank || axis >= rank {
			return status.InvalidArgumentf("Invalid reduction dimension (%d for input with %d dimension(s)", axis, rank)
		}
		axis = (axis + rank) % rank
		if chosen[axis] {
			return status.InvalidArgumentf("Invalid reduction arguments: Axes contains duplicate dimension: %d", axis)
		}
		chosen[axis] = true
	}
	p.out, p.groups = p.outMemory[:0], p.groupMemory[:0]
	for i, d := range shape {
		if !chosen[i] {
			p.out = append(p.out, d)
		} else if keep {
			p.out = append(p.out, 1)
		}
		if d == 1 {
			continue // belongs to either side
		}
		if n := len(p.groups); n == 0 {
			p.firstReduced = chosen[i]
			p.groups = append(p.groups, int(d))
		} else if p.reduced(n-1) == chosen[i] {
			p.groups[n-1] *= int(d)
		} else {
			p.groups = append(p.groups, int(d))
		}
	}
	return nil
}

// intAt is element i of a tensor of int16, int32 or int64.
func intAt(t *tensor.Tensor, i int) (int64, error) {
	switch t.DType() {
	case tensor.Int16:
		return int64(tensor.Of[int16](t)[i]), nil
	case tensor.Int32:
		return int64(tensor.Of[int32](t)[i]), nil
	case tensor.Int64:
		return tensor.Of[int64](t)[i], nil
	}
	return 0, status.InvalidArgumentf("Expected a tensor of int16, int32 or int64, not of %v", t.DType())
}
