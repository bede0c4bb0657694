package grad

import "github.com/troupe-run/troupe/graph/op"

// The gradient of a TensorArray is another one, which TensorArrayGradV3 finds by the array's handle and a source: the scope name of this
// differentiation, so that two differentiations do not share one. Gradients are propagated through the array in the order of its flows.

func init() {
	register(map[string]func(g *call) []op.Output{
		"TensorArrayReadV3": func(g *call) []op.Output {
			handle, flow := g.gradArray(g.x(2))
			return []op.Output{none, none, g.op("TensorArrayWriteV3", handle, g.x(1), g.d(0), flow)}
		},
		"TensorArrayGatherV3": func(g *call) []op.Output {
			handle, flow := g.gradArray(g.x(2))
			return []op.Output{none, none, g.op("TensorArrayScatterV3", handle, g.x(1), g.d(0), flow)}
		},
		"TensorArrayConcatV3": func(g *call) []op.Output {
			handle, flow := g.gradArray(g.x(1))
			return []op.Output{none, g.op("TensorArraySplitV3", handle, g.d(0), g.Output(1), flow)}
		},
		"TensorArrayWriteV3": func(g *call) []op.Output {
			barrier, handle, flow := g.writtenArray()
			dx := g.make("TensorArrayReadV3", g.written(), handle, g.x(1), flow)
			return []op.Output{none, none, dx, barrier}
		},
		"TensorArrayScatterV3": func(g *call) []op.Output {
			barrier, handle, flow := g.writtenArray()
			dx := g.make("TensorArrayGatherV3", g.written(), handle, g.x(1), flow)
			return []op.Output{none, none, dx, barrier}
		},
		"TensorArraySplitV3": func(g *call) []op.Output {
			barrier, handle, flow := g.writtenArray()
			dx := g.make("TensorArrayConcatV3", g.written(), handle, flow)
			return []op.Output{none, dx, none, barrier}
		},
	}, many)
}

// gradArray returns the handle and the flow of the array's gradient.
func (g *call) gradArray(flow op.Output) (handle, out op.Output) {
	o := g.node("TensorArrayGradV3", map[string]any{"source": g.source}, g.x(0), flow)
	return o.Output(0), g.op("Identity", o.Output(1))
}

// writtenArray is gradArray for an op that writes. Its gradient is read once all reads have been differentiated, which the gradient of the
// flow ensures, and once the op itself has run.
func (g *call) writtenArray() (barrier, handle, flow op.Output) {
	done := builder{g.s.WithControlDependencies(g.Operation)}
	barrier = done.op("Identity", g.d(0))
	handle, flow = g.gradArray(barrier)
	return barrier, handle, flow
}

func (g *call) written() map[string]any { return map[string]any{"dtype": g.dtype("T")} }
