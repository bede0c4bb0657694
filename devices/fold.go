package devices

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// foldedBytes bounds the inputs and the outputs of a node that is computed when the program is compiled: a program keeps the outputs for
// its lifetime, and compiling must not take long.
const foldedBytes = 1 << 20

// fold computes the nodes that have the same inputs in each run. A node that fails stays, and fails again when it runs.
func (w *wiring) fold() {
	var queue []*node
	for i := range w.nodes {
		queue = append(queue, &w.program.nodes[i])
	}
	for len(queue) > 0 {
		n := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if !w.foldable(n) {
			continue
		}
		if values := w.compute(n); values != nil {
			w.program.owned = append(w.program.owned, heldTensors(values))
			users := w.of(n).users
			w.fix(n, values)
			for _, u := range users {
				queue = append(queue, u.node)
			}
		}
	}
}

func (w *wiring) foldable(n *node) bool {
	l := w.of(n)
	if len(l.inputs) == 0 || n.costly || !w.pure(n) || len(l.users) == 0 {
		return false
	}
	size := 0
	for _, in := range l.inputs {
		if in.value == nil {
			return false
		}
		size += max(in.value.DataSize(), in.value.Len())
	}
	return size <= foldedBytes && w.fixable(n)
}

// compute returns the outputs of a node whose inputs are known, or nil if it fails.
func (w *wiring) compute(n *node) []*tensor.Tensor {
	l, p := w.of(n), w.program
	quota := tensor.NewQuota(foldedBytes, "constant", "the step computes it")
	ctx := &kernels.Context{Node: n.graph, Device: &bounded{p.device, p.device.Pool().Under(quota)}, Step: &kernels.Step{Cancellation: &kernels.Cancellation{}},
		Inputs: make([]kernels.Value, len(l.inputs)), Outputs: make([]kernels.Value, n.numOut)}
	for i, in := range l.inputs {
		ctx.Inputs[i].Tensor = in.value.Retain()
	}
	err := n.compute(ctx)
	for _, in := range ctx.Inputs {
		in.Release()
	}
	if err == nil {
		_, err = checkOutputs(n, ctx.Outputs, false)
	}
	if err == nil {
		err = countOutputs(ctx, n.strings)
	}
	values := make([]*tensor.Tensor, n.numOut)
	for i, out := range ctx.Outputs {
		if values[i] = out.Tensor; err != nil {
			out.Release()
		}
	}
	if err != nil {
		return nil
	}
	return values
}

// heldTensors are released with the program that holds them.
type heldTensors []*tensor.Tensor

// Close implements kernels.Closer.
func (h heldTensors) Close() { kernels.ReleaseTensors(h) }
