// Package train adds optimizers to a graph: operations that change variables by the gradients of a loss.
//
//	step := train.Minimize(s, train.NewAdam(0.001), loss)
//	init := op.Initialize(s) // after Minimize: optimizers have variables of their own
//
// Running step performs one training step. The formulas, defaults and names of variables are those of TensorFlow's tf.compat.v1.train, and
// so are its kernels: the same graph in Python gives the same losses.
//
// Minimize is Gradients followed by Apply. Between the two, the gradients can be changed, as ClipByGlobalNorm does.
package train

import (
	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Update is a variable and the gradient of the loss with respect to it.
type Update struct {
	Variable *op.Variable
	Gradient grad.Gradient
}

type options struct {
	variables []*op.Variable
	step      *op.Variable
	norm      float64
}

// Option configures Minimize and Apply.
type Option func(*options)

// Only restricts Minimize to these variables.
func Only(variables ...*op.Variable) Option {
	return func(o *options) { o.variables = append(o.variables, variables...) }
}

// Counting adds 1 to an integer variable, the global step, after all others have been updated.
func Counting(step *op.Variable) Option { return func(o *options) { o.step = step } }

// Clipped scales all gradients down if their global norm exceeds norm.
func Clipped(norm float64) Option { return func(o *options) { o.norm = norm } }

func chosen(opts []Option) *options {
	o := &options{}
	for _, set := range opts {
		set(o)
	}
	return o
}

// Minimize adds an operation that performs one training step. It changes the variables that the loss depends on, or those of Only, by the
// gradients of the loss. It returns nil if the graph has an error, for example because the loss depends on no variable.
func Minimize(s *op.Scope, by Optimizer, loss op.Output, opts ...Option) *op.Operation {
	o := chosen(opts)
	updates := Gradients(s, loss, o.variables...)
	if o.norm != 0 {
		updates, _ = ClipByGlobalNorm(s, updates, o.norm) // the norm itself is not needed here
	}
	return Apply(s, by, updates, opts...)
}

// Gradients returns the gradients of the loss with respect to variables, or to all variables of the graph. There is no entry for a
// variable that the loss does not depend on.
func Gradients(s *op.Scope, loss op.Output, variables ...*op.Variable) []Update {
	if len(variables) == 0 {
		variables = s.Variables()
	}
	handles := make([]op.Output, len(variables))
	for i, v := range variables {
		handles[i] = v.Handle()
	}
	var updates []Update
	for i, d := range grad.Gradients(s, []op.Output{loss}, handles) {
		if d.Connected() {
			updates = append(updates, Update{variables[i], d})
		}
	}
	return updates
}

// Apply adds an operation that changes each variable by its gradient. Each variable is updated on its own device, which also holds the
// optimizer's variables for it. Sparse gradients change only the rows that they contain, if the optimizer's formula allows it.
func Apply(s *op.Scope, by Optimizer, updates []Update, opts ...Option) *op.Operation {
	if s.Err() != nil {
		return nil
	}
	if len(updates) == 0 {
		s.Fail(status.New(status.InvalidArgument, "There is nothing to train: the loss depends on no variable"))
		return nil
	}
	o := chosen(opts)
	a := &application{outer: s, Scope: s.SubScope(by.name()), rates: map[rateKey]op.Output{}}
	var done []*op.Operation
	for _, u := range updates {
		at := a.Scope.SubScope("update_" + u.Variable.Name()).Beside(u.Variable.Handle().Op)
		t := target{Scope: at, application: a, variable: u.Variable, first: updates[0].Variable}
		if u.Gradient.Sparse() {
			values, indices := distinct(at, u.Gradient)
			done = append(done, by.sparse(&t, values, indices))
		} else {
			done = append(done, by.dense(&t, u.Gradient.Values))
		}
	}
	if f, ok := by.(finisher); ok {
		done = append(done, f.finish(a.WithControlDependencies(done...))...)
	}
	if s.Err() != nil {
		return nil
	}
	if o.step != nil {
		after := a.WithControlDependencies(done...)
		one := op.Cast(after, op.Const(after, int64(1)), o.step.DType())
		return o.step.AssignAdd(after, one)
	}
	return op.Group(a.Scope, done...)
}

// distinct sums the rows of a sparse gradient that belong to the same row of the variable.
func distinct(s *op.Scope, d grad.Gradient) (values, indices op.Output) {
	indices, at := op.Unique(s, d.Indices)
	return op.UnsortedSegmentSum(s, d.Values, at, op.Size(s, indices)), indices
}

// NewGlobalStep returns a variable that counts steps, an int64 that starts at 0.
func NewGlobalStep(s *op.Scope) *op.Variable {
	return op.NewVariable(s.WithName("global_step"), op.Const(s, int64(0)))
}

// ClipByGlobalNorm multiplies all gradients by norm / max(norm, n), and also returns n, the root of the sum of the squares of all their
// elements. If n is not finite, all gradients become NaN.
func ClipByGlobalNorm(s *op.Scope, updates []Update, norm float64) ([]Update, op.Output) {
	if s.Err() != nil || len(updates) == 0 {
		return updates, op.Output{}
	}
	s = s.SubScope("clip_by_global_norm")
	halves := make([]op.Output, len(updates))
	for i, u := range updates {
		halves[i] = op.Cast(s, op.L2Loss(s, u.Gradient.Values), tensor.Float32)
	}
	total := op.Sqrt(s, op.Mul(s, op.AddN(s, halves), op.Const(s, float32(2))))
	limit := op.Const(s, float32(norm))
	scale := op.RealDiv(s, limit, op.Maximum(s, total, limit))
	scale = op.AddV2(s, scale, op.Sub(s, total, total)) // NaN unless it is finite
	out := make([]Update, len(updates))
	for i, u := range updates {
		u.Gradient.Values = op.Mul(s, u.Gradient.Values, op.Cast(s, scale, u.Gradient.Values.DType()))
		out[i] = u
	}
	return out, total
}
