package train

import (
	"github.com/troupe-run/troupe/graph/op"
)

// Adam is the optimizer of Kingma and Ba (2014), with moving averages m of the gradients and w of their squares, corrected for their start
// at 0: v −= rate·√(1−β₂ᵗ)/(1−β₁ᵗ)·m/(√w+epsilon).
type Adam struct {
	state
	// Beta1 and Beta2 are the decay rates of the averages (default 0.9 and 0.999). Epsilon is added to the root (default 1e-8).
	Beta1, Beta2, Epsilon float64
}

// NewAdam returns an Adam with a learning rate and the defaults for the rest.
func NewAdam[R Rate](rate R) *Adam {
	return &Adam{state: newState(rate), Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
}

func (*Adam) name() string { return "Adam" }

// powers returns β₁ᵗ and β₂ᵗ in the target's type.
func (o *Adam) powers(t *target) (first, second op.Output) {
	read := func(name string, beta float64) op.Output {
		key := rateKey{name, t.variable.DType()}
		v, ok := t.rates[key]
		if !ok {
			handle := o.scalarVariable(t, name, beta)
			s := t.application.Scope
			v = op.Cast(s, op.ReadVariableOp(s.Beside(handle.Op), handle, t.first.DType()), key.t)
			t.rates[key] = v
		}
		return v
	}
	return read("beta1_power", o.Beta1), read("beta2_power", o.Beta2)
}

func (o *Adam) dense(t *target, d op.Output) *op.Operation {
	first, second := o.powers(t)
	return op.ResourceApplyAdam(t.Scope, t.handle(), o.slot(t, "Adam", 0), o.slot(t, "Adam_1", 0), first, second,
		t.scalar(o.rate), t.number(o.Beta1), t.number(o.Beta2), t.number(o.Epsilon), d)
}

// sparse decays the averages of all rows, and therefore updates all rows: only the gradient is sparse.
func (o *Adam) sparse(t *target, values, indices op.Output) *op.Operation {
	s, dtype := t.Scope, t.variable.DType()
	first, second := o.powers(t)
	one := t.number(1)
	rate := op.Mul(s, t.scalar(o.rate), op.RealDiv(s, op.Sqrt(s, op.Sub(s, one, second)), op.Sub(s, one, first)))
	average := func(slot string, beta float64, values op.Output) op.Output {
		v := o.slot(t, slot, 0)
		b := t.number(beta)
		decayed := op.AssignVariableOp(s, v, op.Mul(s, op.ReadVariableOp(s, v, dtype), b))
		added := op.ResourceScatterAdd(s.WithControlDependencies(decayed), v, indices, op.Mul(s, values, op.Sub(s, one, b)))
		return op.ReadVariableOp(s.WithControlDependencies(added), v, dtype)
	}
	m := average("Adam", o.Beta1, values)
	w := average("Adam_1", o.Beta2, op.Square(s, values))
	return t.variable.AssignSub(s, op.RealDiv(s, op.Mul(s, rate, m), op.AddV2(s, op.Sqrt(s, w), t.number(o.Epsilon))))
}

// finish advances the powers of the betas by one step.
func (o *Adam) finish(s *op.Scope) (done []*op.Operation) {
	next := func(name string, beta float64) {
		if v := o.slots[slotKey{nil, name}]; v != nil {
			done = append(done, v.Assign(s, op.Mul(s, v.Read(s), op.Cast(s, op.Const(s, beta), v.DType()))))
		}
	}
	next("beta1_power", o.Beta1)
	next("beta2_power", o.Beta2)
	return done
}

// AdamW is Adam with decoupled weight decay (Loshchilov and Hutter, 2017): each step first subtracts rate·Decay·v from the variable. With
// a sparse gradient, only the gradient's rows decay.
type AdamW struct {
	Adam
	// Decay is the fraction of the variable that is subtracted, multiplied by the learning rate (default 0.004).
	Decay float64
	// Decays reports whether a variable decays; if it is nil, all do. Biases and scales usually do not.
	Decays func(*op.Variable) bool
}

// NewAdamW returns an AdamW with a learning rate and the defaults for the rest.
func NewAdamW[R Rate](rate R) *AdamW { return &AdamW{Adam: *NewAdam(rate), Decay: 0.004} }

func (*AdamW) name() string { return "AdamW" }

func (o *AdamW) dense(t *target, d op.Output) *op.Operation {
	if o.decays(t) {
		s := t.WithControlDependencies(d.Op) // d may depend on the old value of the variable
		t = t.after(t.variable.AssignSub(s, op.Mul(s, t.variable.Read(s), o.factor(t))))
	}
	return o.Adam.dense(t, d)
}

func (o *AdamW) sparse(t *target, values, indices op.Output) *op.Operation {
	if o.decays(t) {
		s := t.WithControlDependencies(values.Op)
		rows := op.Mul(s, t.variable.Gather(s, indices), o.factor(t))
		t = t.after(op.ResourceScatterSub(s, t.handle(), indices, rows))
	}
	return o.Adam.sparse(t, values, indices)
}

func (o *AdamW) decays(t *target) bool {
	return o.Decay != 0 && (o.Decays == nil || o.Decays(t.variable))
}

func (o *AdamW) factor(t *target) op.Output {
	return op.Mul(t.Scope, t.scalar(o.rate), t.number(o.Decay))
}

// after returns t for operations that run after o.
func (t *target) after(o *op.Operation) *target {
	next := *t
	next.Scope = t.WithControlDependencies(o)
	return &next
}
