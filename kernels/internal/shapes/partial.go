package shapes

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// PartialShape is a shape with possibly unknown sizes (-1) or unknown rank (Known is false).
type PartialShape struct {
	Dims  tensor.Shape
	Known bool
}

// String formats the shape as TensorFlow does.
func (p PartialShape) String() string {
	if !p.Known {
		return "<unknown>"
	}
	return p.Dims.String()
}

// Full reports whether the shape is fully known.
func (p PartialShape) Full() bool {
	for _, d := range p.Dims {
		if d < 0 {
			return false
		}
	}
	return p.Known
}

// Admits reports whether a tensor may have shape s.
func (p PartialShape) Admits(s tensor.Shape) bool { return !p.Known || s.Compatible(p.Dims) }

// Merge combines what p and q know, or fails if they contradict each other.
func (p PartialShape) Merge(q PartialShape) (PartialShape, error) {
	switch {
	case !p.Known:
		return q, nil
	case !q.Known:
		return p, nil
	case len(p.Dims) != len(q.Dims):
		return p, status.InvalidArgumentf("PartialTensorShape: Incompatible ranks during merge: %d vs. %d", len(p.Dims), len(q.Dims))
	}
	out := p.Dims.Clone()
	for i, d := range q.Dims {
		switch {
		case out[i] < 0:
			out[i] = d
		case d >= 0 && d != out[i]:
			return p, status.InvalidArgumentf("PartialTensorShape: Incompatible shapes during merge: %v vs. %v", p, q)
		}
	}
	return PartialShape{out, true}, nil
}

// PartialShapeInput reads input i: a vector of sizes, where -1 is an unknown size, or the scalar -1 for an unknown rank.
func PartialShapeInput(ctx *kernels.Context, i int) (PartialShape, error) {
	t := ctx.Input(i)
	sizes, err := ctx.Ints(i)
	if err != nil {
		return PartialShape{}, err
	}
	switch {
	case t.Rank() == 0 && sizes[0] == -1:
		return PartialShape{}, nil
	case t.Rank() == 0:
		return PartialShape{}, status.InvalidArgumentf("The only valid scalar shape tensor is the fully unknown shape specified as -1.")
	case t.Rank() > 1:
		return PartialShape{}, status.InvalidArgumentf("Shape must be at most rank 1 but is rank %d", t.Rank())
	}
	for _, d := range sizes {
		if d < -1 {
			return PartialShape{}, status.InvalidArgumentf("Dimension %d must be >= -1", d)
		}
	}
	return PartialShape{sizes, true}, nil
}
