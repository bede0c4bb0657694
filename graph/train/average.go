package train

import "github.com/troupe-run/troupe/graph/op"

// Averages keeps exponential moving averages of variables, which often perform better than the variables
// themselves: a = decay·a + (1−decay)·v, starting with the variable's initial value.
type Averages struct {
	decay float64
	of    []*op.Variable
	avg   map[*op.Variable]*op.Variable
}

// NewAverages creates a variable for the average of each of variables, or of all variables of the graph. The closer decay is to 1, the
// more steps the averages cover.
func NewAverages(s *op.Scope, decay float64, variables ...*op.Variable) *Averages {
	if len(variables) == 0 {
		variables = s.Variables()
	}
	a := &Averages{decay: decay, of: variables, avg: map[*op.Variable]*op.Variable{}}
	for _, v := range variables {
		at := s.Beside(v.Handle().Op)
		initial := v.Read(at.WithControlDependencies(v.Initializer()))
		a.avg[v] = op.NewVariable(at.WithName(v.Name()+"/ExponentialMovingAverage"), initial)
	}
	return a
}

// Update adds an operation that updates the averages from the variables' values, and returns it. Run it after a step, for example in a
// scope that depends on that step's operation.
func (a *Averages) Update(s *op.Scope) *op.Operation {
	s = s.SubScope("ExponentialMovingAverage")
	done := make([]*op.Operation, len(a.of))
	for i, v := range a.of {
		avg, at := a.avg[v], s.Beside(v.Handle().Op)
		part := op.Cast(at, op.Const(at, 1-a.decay), v.DType())
		done[i] = avg.AssignSub(at, op.Mul(at, op.Sub(at, avg.Read(at), v.Read(at)), part))
	}
	return op.Group(s, done...)
}

// Of returns the average of a variable, or nil if it has none.
func (a *Averages) Of(v *op.Variable) *op.Variable { return a.avg[v] }
