package train

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Optimizer changes variables by gradients. It is an SGD, Momentum, Adagrad, RMSProp, Adam, AdamW or FTRL. Set its fields before you use
// it. If an optimizer is used twice in a graph, both uses share its own variables.
type Optimizer interface {
	// name is the name of the scope of its operations.
	name() string
	// dense and sparse add the operations that change a variable by a gradient, or by distinct rows of one.
	dense(t *target, d op.Output) *op.Operation
	sparse(t *target, values, indices op.Output) *op.Operation
}

// finisher is an optimizer that adds operations to run after all variables have been changed.
type finisher interface {
	finish(s *op.Scope) []*op.Operation
}

// Rate is the constraint for learning rates: a number, or a scalar tensor, such as one that falls with the global step.
type Rate interface{ float64 | op.Output }

// state is what all optimizers have: the rate and their own variables.
type state struct {
	rate  any // of type Rate
	slots map[slotKey]*op.Variable
}

type slotKey struct {
	of   *op.Variable // nil for one that does not belong to a variable
	name string
}

func newState[R Rate](rate R) state { return state{rate: rate, slots: map[slotKey]*op.Variable{}} }

// application is one call of Apply.
type application struct {
	*op.Scope
	outer *op.Scope // where variables are created
	rates map[rateKey]op.Output
}

type rateKey struct {
	of any
	t  tensor.DType
}

// target is a variable to add an update for.
type target struct {
	*op.Scope
	*application
	variable, first *op.Variable
}

func (t *target) handle() op.Output { return t.variable.Handle() }

// number returns a hyperparameter as a scalar of the variable's type.
func (t *target) number(v float64) op.Output { return t.scalar(v) }

// scalar returns a number or a scalar tensor converted to the variable's type.
func (t *target) scalar(v any) op.Output {
	key := rateKey{v, t.variable.DType()}
	if out, ok := t.rates[key]; ok {
		return out
	}
	// All variables share them, so they are placed by the scope.
	s := t.application.Scope
	var out op.Output
	switch v := v.(type) {
	case op.Output:
		out = v
	case float64:
		if key.t == tensor.Float64 {
			out = op.Const(s, v)
		} else {
			out = op.Const(s, float32(v))
		}
	}
	if out.Op != nil && out.DType() != key.t {
		out = op.Cast(s, out, key.t)
	}
	t.rates[key] = out
	return out
}

// slot returns the optimizer's variable of that name for the target's variable, with the same shape and on the same device. It is created
// when first requested, with all elements set to initial.
func (s *state) slot(t *target, name string, initial float64) op.Output {
	v := t.variable
	return s.variable(slotKey{v, name}, func() *op.Variable {
		at, slot := t.outer.Beside(v.Handle().Op), v.Name()+"/"+name
		return op.NewVariable(at.WithName(slot), filled(at.SubScope(slot+"/Initializer"), v, initial))
	})
}

// variable returns a variable of the optimizer, which it creates if necessary.
func (s *state) variable(key slotKey, make func() *op.Variable) op.Output {
	v, ok := s.slots[key]
	if !ok {
		v = make()
		s.slots[key] = v
	}
	return v.Handle()
}

// filled returns a tensor of a variable's shape. If that is unknown, it takes the shape of the variable's initial value.
func filled(s *op.Scope, v *op.Variable, with float64) op.Output {
	value := op.Cast(s, op.Const(s, with), v.DType())
	if dims, known := v.Shape().Dims(); known && v.Shape().Full() {
		if len(dims) == 0 {
			return value
		}
		return op.Fill(s, op.Const(s, []int64(dims)), value)
	}
	like := v.Read(s.WithControlDependencies(v.Initializer()))
	return op.Fill(s, op.Shape(s, like), value)
}

// scalarVariable returns a variable that an optimizer has once, next to the first variable that it updates.
func (s *state) scalarVariable(t *target, name string, initial float64) op.Output {
	return s.variable(slotKey{nil, name}, func() *op.Variable {
		at := t.outer.Beside(t.first.Handle().Op)
		value := at.SubScope(name + "/Initializer")
		return op.NewVariable(at.WithName(name), op.Cast(value, op.Const(value, initial), t.first.DType()))
	})
}
