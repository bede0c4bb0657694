package train

import "github.com/troupe-run/troupe/graph/op"

// Adagrad divides by the root of the sum of all squared gradients: a += g², v −= rate·g/√a.
type Adagrad struct {
	state
	// Initial is the initial value of the sums; it must be greater than 0 (default 0.1).
	Initial float64
}

// NewAdagrad returns an Adagrad with a learning rate and the defaults for the rest.
func NewAdagrad[R Rate](rate R) *Adagrad { return &Adagrad{state: newState(rate), Initial: 0.1} }

func (*Adagrad) name() string { return "Adagrad" }

func (o *Adagrad) dense(t *target, d op.Output) *op.Operation {
	return op.ResourceApplyAdagrad(t.Scope, t.handle(), o.slot(t, "Adagrad", o.Initial), t.scalar(o.rate), d)
}

func (o *Adagrad) sparse(t *target, values, indices op.Output) *op.Operation {
	return op.ResourceSparseApplyAdagrad(t.Scope, t.handle(), o.slot(t, "Adagrad", o.Initial), t.scalar(o.rate), values, indices)
}

// RMSProp divides by the root of a moving average of the squared gradients:
// a = decay·a + (1−decay)·g², m = momentum·m + rate·g/√(a+epsilon), v −= m.
type RMSProp struct {
	state
	// Decay is the decay rate of the average (default 0.9). Momentum is the fraction of the last step that is kept (default 0). Epsilon is
	// added to the average (default 1e-10).
	Decay, Momentum, Epsilon float64
	// Centered subtracts the square of the gradients' own moving average, replacing the mean square with a variance.
	Centered bool
}

// NewRMSProp returns an RMSProp with a learning rate and the defaults for the rest.
func NewRMSProp[R Rate](rate R) *RMSProp {
	return &RMSProp{state: newState(rate), Decay: 0.9, Epsilon: 1e-10}
}

func (*RMSProp) name() string { return "RMSProp" }

func (o *RMSProp) dense(t *target, d op.Output) *op.Operation {
	squares, momentum := o.slot(t, "RMSProp", 1), o.slot(t, "RMSProp_1", 0)
	rate, decay, keep, epsilon := t.scalar(o.rate), t.number(o.Decay), t.number(o.Momentum), t.number(o.Epsilon)
	if o.Centered {
		return op.ResourceApplyCenteredRMSProp(t.Scope, t.handle(), o.slot(t, "RMSProp_2", 0), squares, momentum, rate, decay, keep, epsilon, d)
	}
	return op.ResourceApplyRMSProp(t.Scope, t.handle(), squares, momentum, rate, decay, keep, epsilon, d)
}

func (o *RMSProp) sparse(t *target, values, indices op.Output) *op.Operation {
	squares, momentum := o.slot(t, "RMSProp", 1), o.slot(t, "RMSProp_1", 0)
	rate, decay, keep, epsilon := t.scalar(o.rate), t.number(o.Decay), t.number(o.Momentum), t.number(o.Epsilon)
	if o.Centered {
		return op.ResourceSparseApplyCenteredRMSProp(t.Scope, t.handle(), o.slot(t, "RMSProp_2", 0), squares, momentum, rate, decay, keep, epsilon, values, indices)
	}
	return op.ResourceSparseApplyRMSProp(t.Scope, t.handle(), squares, momentum, rate, decay, keep, epsilon, values, indices)
}

// FTRL is the "follow the regularized leader" optimizer of McMahan et al. (2013), for sparse linear models.
type FTRL struct {
	state
	// Power is the exponent of the learning rate: 0 keeps the rate constant, a negative value makes it fall with the gradients (default
	// -0.5).
	Power float64
	// Initial is the initial value of the sums of squared gradients (default 0.1).
	Initial float64
	// L1 and L2 are the strengths of the regularization (default 0). Shrinkage is the strength of an L2 penalty that affects only the
	// magnitude (default 0).
	L1, L2, Shrinkage float64
}

// NewFTRL returns an FTRL with a learning rate and the defaults for the rest.
func NewFTRL[R Rate](rate R) *FTRL { return &FTRL{state: newState(rate), Power: -0.5, Initial: 0.1} }

func (*FTRL) name() string { return "Ftrl" }

func (o *FTRL) dense(t *target, d op.Output) *op.Operation {
	sums, linear := o.slot(t, "Ftrl", o.Initial), o.slot(t, "Ftrl_1", 0)
	rate, l1, l2, power := t.scalar(o.rate), t.number(o.L1), t.number(o.L2), t.number(o.Power)
	if o.Shrinkage > 0 {
		return op.ResourceApplyFtrlV2(t.Scope, t.handle(), sums, linear, d, rate, l1, l2, t.number(o.Shrinkage), power)
	}
	return op.ResourceApplyFtrl(t.Scope, t.handle(), sums, linear, d, rate, l1, l2, power)
}

func (o *FTRL) sparse(t *target, values, indices op.Output) *op.Operation {
	sums, linear := o.slot(t, "Ftrl", o.Initial), o.slot(t, "Ftrl_1", 0)
	rate, l1, l2, power := t.scalar(o.rate), t.number(o.L1), t.number(o.L2), t.number(o.Power)
	if o.Shrinkage > 0 {
		return op.ResourceSparseApplyFtrlV2(t.Scope, t.handle(), sums, linear, values, indices, rate, l1, l2, t.number(o.Shrinkage), power)
	}
	return op.ResourceSparseApplyFtrl(t.Scope, t.handle(), sums, linear, values, indices, rate, l1, l2, power)
}
