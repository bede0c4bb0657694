package random

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// parameters holds the parameters of a distribution, broadcast to the last dimensions of the output. A member, which TensorFlow calls a
// batch member, is one set of parameters. Its samples are members elements apart.
type parameters struct {
	tensors []*tensor.Tensor
	places  []func(member int) int
	members int
	samples int // per member
}

// newParameters broadcasts tensors against each other. incompatible returns the error if that fails.
func newParameters(out tensor.Shape, incompatible func() error, tensors ...*tensor.Tensor) (parameters, error) {
	p := parameters{tensors: tensors}
	common := tensor.Shape{}
	for _, t := range tensors {
		wider, ok := shapes.BroadcastShape(common, t.Shape())
		if !ok {
			return p, incompatible()
		}
		common = wider
	}
	if !endsWith(out, common) {
		return p, errNotBroadcast()
	}
	p.members, p.samples = 1, 1
	for i, d := range out {
		if i < len(out)-len(common) {
			p.samples *= int(d)
		} else {
			p.members *= int(d)
		}
	}
	for _, t := range tensors {
		p.places = append(p.places, stretched(t.Shape(), common))
	}
	return p, nil
}

// shapeInput reads the output shape from input i.
func shapeInput(ctx *kernels.Context, i int) (tensor.Shape, error) {
	if t := ctx.Input(i); t.Rank() != 1 {
		return nil, status.InvalidArgumentf("Input shape should be a vector, got shape: %v", t.Shape())
	}
	return args.ShapeInput(ctx, i)
}

// number returns parameter i of a member.
func (p *parameters) number(i, member int) float64 {
	t := p.tensors[i]
	return elementAt[t.DType()](t, p.places[i](member))
}

// stretched returns a function that maps the index of an element of shape to to the index of the element of shape from that is broadcast to
// it.
func stretched(from, to tensor.Shape) func(i int) int {
	if from.Equal(to) {
		return func(i int) int { return i }
	}
	strides := make([]int, len(to))
	step := 1
	for i := range from {
		axis := len(to) - 1 - i
		if d := int(from[len(from)-1-i]); d != 1 {
			strides[axis] = step
			step *= d
		}
	}
	sizes := slices.Clone(to)
	return func(i int) (place int) {
		for axis := len(sizes) - 1; axis >= 0; axis-- {
			d := int(sizes[axis])
			place += i % d * strides[axis]
			i /= d
		}
		return place
	}
}
