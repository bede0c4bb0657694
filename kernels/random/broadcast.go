package random

import (
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// parameters are those of a distribution, broadcast to the last dimensions of what is drawn. The samples of each batch member, as
// TensorFlow calls one set of parameters, are members elements apart.
type parameters struct {
	tensors []*tensor.Tensor
	places  []func(member int) int
	members int
	samples int // of each
}

// newParameters broadcasts tensors against each other. incompatible is the error where they do not fit.
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

// shapeInput reads the shape of what is drawn.
func shapeInput(ctx *kernels.Context, i int) (tensor.Shape, error) {
	if t := ctx.Input(i); t.Rank() != 1 {
		return nil, status.InvalidArgumentf("Input shape should be a vector, got shape: %v", t.Shape())
	}
	return args.ShapeInput(ctx, i)
}

// number is parameter i of a member.
func (p *parameters) number(i, member int) float64 {
	t := p.tensors[i]
	return elementAt[t.DType()](t, p.places[i](member))
}

// stretched tells where in a tensor each element of the shape is that it is broadcast to.
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
