package reduce

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// Plan describes a reduction over axes.
type Plan struct {
	// Out is the shape of the result.
	Out tensor.Shape
	// Groups are the sizes of the input's dimensions, with neighbours merged so that reduced and kept groups alternate; FirstReduced
	// reports whether the first is reduced.
	Groups       []int
	FirstReduced bool

	outMemory   [8]int64
	groupMemory [8]int
}

// Trivial reports whether every element is reduced by itself.
func (p *Plan) Trivial() bool {
	return len(p.Groups) == 0 || len(p.Groups) == 1 && !p.FirstReduced
}

// reduced reports whether group i is reduced.
func (p *Plan) reduced(i int) bool { return (i%2 == 0) == p.FirstReduced }

// Make plans the reduction of a tensor of the given shape over axes, a tensor of int32 or int64. Negative axes count from the end.
func (p *Plan) Make(shape tensor.Shape, axes *tensor.Tensor, keep bool) error {
	var memory [16]bool
	chosen := memory[:]
	if len(shape) > len(memory) {
		chosen = make([]bool, len(shape))
	}
	for i := range axes.Len() {
		axis, err := args.IntAt(axes, i)
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
	p.Out, p.Groups = p.outMemory[:0], p.groupMemory[:0]
	for i, d := range shape {
		if !chosen[i] {
			p.Out = append(p.Out, d)
		} else if keep {
			p.Out = append(p.Out, 1)
		}
		if d == 1 {
			continue // belongs to either group
		}
		if n := len(p.Groups); n == 0 {
			p.FirstReduced = chosen[i]
			p.Groups = append(p.Groups, int(d))
		} else if p.reduced(n-1) == chosen[i] {
			p.Groups[n-1] *= int(d)
		} else {
			p.Groups = append(p.Groups, int(d))
		}
	}
	return nil
}
