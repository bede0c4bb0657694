// Package grad differentiates graphs: it adds the operations that compute gradients to a graph of package op.
//
//	loss := op.Mean(s, op.SquaredDifference(s, y, want), axes)
//	dw := grad.Gradients(s, []op.Output{loss}, []op.Output{w})[0].Dense(s)
//
// It walks from the ys back to the xs, from each operation to its inputs, and sums the gradients that reach a tensor on several paths. A
// table has a function for each op that maps the gradients of its outputs to those of its inputs. These functions are those of
// TensorFlow's Python client (python/ops/*_grad.py). Ops lists the ops in the table.
package grad

import (
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/op"
)

// Gradient is the gradient with respect to one tensor. If the tensor was read by rows, like an embedding, the gradient stays sparse:
// Values[i] belongs to row Indices[i], and rows that occur more than once add up. The zero Gradient belongs to a tensor that no y depends
// on.
type Gradient struct {
	// Values is the gradient itself, or its rows if Indices is set.
	Values op.Output
	// Indices are the rows, and Shape is the shape of the whole tensor. Both are zero Outputs for a dense gradient.
	Indices, Shape op.Output
}

// Connected reports whether a y depends on the tensor.
func (d Gradient) Connected() bool { return d.Values.Op != nil }

// Sparse reports whether the gradient consists of rows.
func (d Gradient) Sparse() bool { return d.Indices.Op != nil }

// Dense returns the gradient as one tensor of full shape. For a sparse gradient, this adds an operation. It returns the zero Output if no
// y depends on the tensor.
func (d Gradient) Dense(s *op.Scope) op.Output {
	if !d.Sparse() {
		return d.Values
	}
	b := builder{s}
	return b.op("UnsortedSegmentSum", d.Values, d.Indices, b.at(d.Shape, 0))
}

type options struct {
	dys      []op.Output
	stop     []op.Output
	colocate bool
}

// Option configures Gradients.
type Option func(*options)

// From sets the gradients of the ys, one for each, of the same shape. The default is ones, which differentiates the sum of all elements of
// the ys.
func From(dys ...op.Output) Option { return func(o *options) { o.dys = dys } }

// StopAt treats tensors as constants: no gradient flows through them.
func StopAt(tensors ...op.Output) Option {
	return func(o *options) { o.stop = append(o.stop, tensors...) }
}

// Colocated places the operations of a gradient on the device of the operation that they differentiate. By default, they are placed on the
// scope's device.
func Colocated() Option { return func(o *options) { o.colocate = true } }

// Gradients adds operations that compute the gradients of ys with respect to each of xs, and returns them in the order of xs. The xs may
// be any tensors of the graph, including handles of variables.
//
// If an op on a path has no gradient, Gradients sets the graph's error to UNIMPLEMENTED. No gradient flows through ops whose derivative is
// zero or undefined, such as comparisons.
func Gradients(s *op.Scope, ys, xs []op.Output, opts ...Option) []Gradient {
	var o options
	for _, set := range opts {
		set(&o)
	}
	out := make([]Gradient, len(xs))
	if s.Err() != nil {
		return out
	}
	b := &backprop{options: &o, s: s.SubScope("gradients"), grads: map[op.Output][]Gradient{}}
	b.source = strings.TrimSuffix(b.s.Prefix(), "/")
	if err := b.run(ys, xs); err != nil {
		s.Fail(err)
		return out
	}
	for i, x := range xs {
		out[i] = b.sum(x)
	}
	return out
}

// Ops returns the sorted names of the ops that have a gradient. It excludes ops that are known to have none.
func Ops() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name, r := range maps.All(rules) {
			if r != nil && !yield(name) {
				return
			}
		}
	})
}
