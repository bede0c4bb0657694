package grad

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// backprop propagates gradients from ys back to xs.
type backprop struct {
	*options
	s      *op.Scope
	source string // the name prefix of this run's operations
	// between contains the operations on a path from an x to a y. The value is true if the operation has inputs to propagate to.
	between map[*op.Operation]bool
	// pending counts, for each operation in between, the edges whose gradients are outstanding.
	pending map[*op.Operation]int
	grads   map[op.Output][]Gradient
	ready   []*op.Operation
}

func (b *backprop) run(ys, xs []op.Output) error {
	for what, list := range map[string][]op.Output{"y": ys, "x": xs} {
		for i, t := range list {
			if t.Op == nil {
				return status.InvalidArgumentf("Gradients: %s %d is not a tensor: the operation that yields it was never added", what, i)
			}
		}
	}
	if b.dys != nil && len(b.dys) != len(ys) {
		return status.InvalidArgumentf("Gradients: there are %d ys, but %d gradients of them", len(ys), len(b.dys))
	}
	b.reach(ys, xs)
	for i, y := range ys {
		if !trainable(y.DType()) {
			return status.InvalidArgumentf("Gradients: y %d, %s, has the type %v, which cannot be differentiated", i, y.Name(), y.DType())
		}
		if _, ok := b.between[y.Op]; !ok {
			continue
		}
		var dy op.Output
		if b.dys != nil {
			dy = b.dys[i]
		} else {
			dy = builder{b.s}.op("OnesLike", y)
		}
		b.grads[y] = append(b.grads[y], Gradient{Values: dy})
	}
	for _, y := range ys {
		_, reached := b.between[y.Op]
		if reached && b.pending[y.Op] == 0 && !slices.Contains(b.ready, y.Op) {
			b.ready = append(b.ready, y.Op)
		}
	}
	for len(b.ready) > 0 && b.s.Err() == nil {
		o := b.ready[0]
		b.ready = b.ready[1:]
		if err := b.differentiate(o); err != nil {
			return status.Errorf(status.CodeOf(err), "%v\n\t [[{{node %s}}]]", err, o.Name())
		}
	}
	return nil
}

// reach finds the operations between xs and ys, and counts the edges over which each receives gradients.
func (b *backprop) reach(ys, xs []op.Output) {
	b.between = map[*op.Operation]bool{}
	b.pending = map[*op.Operation]int{}
	ends := map[*op.Operation]bool{}
	for _, x := range xs {
		ends[x.Op] = true
	}
	type visit struct {
		o    *op.Operation
		next int // the next input to visit
	}
	seen := map[*op.Operation]bool{}
	for _, y := range ys {
		// Depth first, with each operation after its inputs. No recursion: graphs may be too deep.
		stack := []visit{}
		push := func(o *op.Operation) {
			if !seen[o] {
				seen[o] = true
				stack = append(stack, visit{o: o})
			}
		}
		push(y.Op)
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if rule, known := rules[top.o.Type()]; known && rule == nil {
				top.next = len(top.o.Inputs())
			}
			if in := top.o.Inputs(); top.next < len(in) {
				top.next++
				if b.passes(in[top.next-1]) {
					push(in[top.next-1].Op)
				}
				continue
			}
			b.mark(top.o, ends[top.o])
			stack = stack[:len(stack)-1]
		}
	}
}

// mark decides whether an operation is between xs and ys, once its inputs have been decided.
func (b *backprop) mark(o *op.Operation, end bool) {
	more := false
	if rule, known := rules[o.Type()]; !known || rule != nil {
		for _, in := range o.Inputs() {
			if b.wants(in) {
				b.pending[in.Op]++
				more = true
			}
		}
	}
	if end || more {
		b.between[o] = more
	}
}

// wants reports whether a gradient of an operation's input leads to an x.
func (b *backprop) wants(in op.Output) bool {
	_, between := b.between[in.Op]
	return between && b.passes(in)
}

// passes reports whether gradients flow back through a tensor.
func (b *backprop) passes(t op.Output) bool {
	return trainable(t.DType()) && !slices.Contains(b.stop, t)
}

// trainable reports whether tensors of a type have gradients: non-integer numbers, and handles of containers of such.
func trainable(t tensor.DType) bool {
	switch t.Base() {
	case tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64, tensor.Complex64, tensor.Complex128, tensor.Resource, tensor.Variant:
		return true
	}
	return false
}

// differentiate propagates the gradients of an operation's outputs to its inputs.
func (b *backprop) differentiate(o *op.Operation) error {
	if !b.between[o] {
		return nil
	}
	g := &call{Operation: o, dy: make([]Gradient, o.NumOutputs()), source: b.source}
	for _, in := range o.Inputs() {
		g.wanted = append(g.wanted, b.wants(in))
	}
	any := false
	for i := range g.dy {
		g.dy[i] = b.sum(o.Output(i))
		any = any || g.dy[i].Connected()
	}
	var dx []Gradient
	if any {
		rule, known := rules[o.Type()]
		if !known {
			return status.Unimplementedf("The op %s has no gradient", o.Type())
		}
		s := b.s.SubScope(o.Name() + "_grad")
		if b.colocate {
			s = s.Beside(o)
		}
		g.builder = builder{s}
		var err error
		if dx, err = rule(g); err != nil {
			return err
		}
		if b.s.Err() == nil && len(dx) != len(o.Inputs()) {
			return status.Internalf("The gradient of %s has %d values for %d inputs", o.Type(), len(dx), len(o.Inputs()))
		}
	}
	for i, in := range o.Inputs() {
		if !g.wanted[i] {
			continue
		}
		if i < len(dx) && dx[i].Connected() {
			b.grads[in] = append(b.grads[in], dx[i])
		}
		if b.pending[in.Op]--; b.pending[in.Op] == 0 {
			b.ready = append(b.ready, in.Op)
		}
	}
	return nil
}

// sum returns a tensor's gradient, the sum of all gradients received, and stores it. The sum is sparse if all of its terms are.
func (b *backprop) sum(t op.Output) Gradient {
	grads := b.grads[t]
	if len(grads) > 1 {
		grads = []Gradient{sum(builder{b.s}, grads)}
		b.grads[t] = grads
	}
	if len(grads) == 0 {
		return Gradient{}
	}
	return grads[0]
}

func sum(b builder, grads []Gradient) Gradient {
	if !slices.ContainsFunc(grads, func(d Gradient) bool { return !d.Sparse() }) {
		var values, indices op.List
		t := tensor.Int32
		for _, d := range grads {
			if d.Indices.DType() == tensor.Int64 {
				t = tensor.Int64
			}
		}
		for _, d := range grads {
			values = append(values, d.Values)
			indices = append(indices, b.cast(d.Indices, t))
		}
		axis := b.int(0)
		return Gradient{Values: b.make("ConcatV2", nil, values, axis), Indices: b.make("ConcatV2", nil, indices, axis), Shape: grads[0].Shape}
	}
	var all op.List
	for _, d := range grads {
		all = append(all, d.Dense(b.s))
	}
	return Gradient{Values: b.make("AddN", nil, all)}
}
