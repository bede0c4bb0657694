package train

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
)

// SGD is stochastic gradient descent: v −= rate·g.
type SGD struct{ state }

// NewSGD returns an SGD with a learning rate.
func NewSGD[R Rate](rate R) *SGD { return &SGD{newState(rate)} }

func (*SGD) name() string { return "GradientDescent" }

func (o *SGD) dense(t *target, d op.Output) *op.Operation {
	return op.ResourceApplyGradientDescent(t.Scope, t.handle(), t.scalar(o.rate), d)
}

func (o *SGD) sparse(t *target, values, indices op.Output) *op.Operation {
	return op.ResourceScatterAdd(t.Scope, t.handle(), indices, op.Neg(t.Scope, op.Mul(t.Scope, values, t.scalar(o.rate))))
}

// Momentum is SGD that keeps part of the previous step: m = momentum·m + g, v −= rate·m.
type Momentum struct {
	state
	// Momentum is the fraction of the last step that is kept. Nesterov evaluates the gradient at the point that this fraction leads to.
	Momentum float64
	Nesterov bool
}

// NewMomentum returns a Momentum with a learning rate and the fraction of the last step that is kept, such as 0.9.
func NewMomentum[R Rate](rate R, momentum float64) *Momentum {
	return &Momentum{state: newState(rate), Momentum: momentum}
}

func (*Momentum) name() string { return "Momentum" }

func (o *Momentum) dense(t *target, d op.Output) *op.Operation {
	return op.ResourceApplyMomentum(t.Scope, t.handle(), o.slot(t, "Momentum", 0), t.scalar(o.rate), d, t.number(o.Momentum), attr.UseNesterov(o.Nesterov))
}

func (o *Momentum) sparse(t *target, values, indices op.Output) *op.Operation {
	return op.ResourceSparseApplyMomentum(t.Scope, t.handle(), o.slot(t, "Momentum", 0), t.scalar(o.rate), values, indices, t.number(o.Momentum), attr.UseNesterov(o.Nesterov))
}
