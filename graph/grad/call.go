package grad

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// call is an operation being differentiated, with the gradients of its outputs. Its rule adds operations to the builder's scope.
type call struct {
	*op.Operation
	builder
	dy []Gradient
	// wanted is, for each input, whether its gradient is needed.
	wanted []bool
	// source identifies this run of Gradients within the graph.
	source string
}

// rule returns the gradients of an operation's inputs, one for each; the zero Gradient for an input without one.
type rule func(g *call) ([]Gradient, error)

// rules maps each op to its rule. The rule is nil for ops whose derivative is zero or undefined. The files named after groups of ops fill
// the table.
var rules = map[string]rule{}

// register adds rules. Two rules for one op are a bug of this package.
func register[F any](table map[string]F, as func(F) rule) {
	for name, f := range table {
		if _, twice := rules[name]; twice {
			panic("grad: two rules for " + name)
		}
		rules[name] = as(f)
	}
}

// many adapts functions that return a dense tensor for each input.
func many(f func(g *call) []op.Output) rule {
	return func(g *call) ([]Gradient, error) { return dense(f(g)...), nil }
}

// one adapts functions of ops that differentiate only their first input, from the gradient of the first output.
func one(f func(g *call, x, y, dy op.Output) op.Output) rule {
	return func(g *call) ([]Gradient, error) {
		dx := make([]Gradient, len(g.Inputs()))
		dx[0].Values = f(g, g.x(0), g.Output(0), g.d(0))
		return dx, nil
	}
}

func dense(values ...op.Output) []Gradient {
	out := make([]Gradient, len(values))
	for i, v := range values {
		out[i].Values = v
	}
	return out
}

// none stands for the missing gradient of an input.
var none op.Output

func (g *call) x(i int) op.Output { return g.Inputs()[i] }

// d returns the gradient of an output as one tensor, zeros if nothing depends on the output.
func (g *call) d(i int) op.Output {
	if !g.dy[i].Connected() {
		g.dy[i].Values = g.zeros(g.Output(i))
	}
	g.dy[i] = Gradient{Values: g.dy[i].Dense(g.s)}
	return g.dy[i].Values
}

// ds returns the gradients of all outputs.
func (g *call) ds() []op.Output {
	out := make([]op.Output, len(g.dy))
	for i := range g.dy {
		out[i] = g.d(i)
	}
	return out
}

// attrs returns some of the operation's own attributes.
func (g *call) attrs(names ...string) map[string]any {
	out := make(map[string]any, len(names))
	for _, name := range names {
		if v, ok := g.Attrs()[name]; ok {
			out[name] = v
		}
	}
	return out
}

func (g *call) flag(name string) bool { return g.Attrs()[name].GetB() }

func (g *call) text(name string) string { return string(g.Attrs()[name].GetS()) }

func (g *call) dtype(name string) tensor.DType { return tensor.FromProto(g.Attrs()[name].GetType()) }

// unbroadcast sums the gradients of two inputs that were broadcast to a common shape, to restore the inputs' shapes. A zero Output is
// returned unchanged.
func (g *call) unbroadcast(x, y, dx, dy op.Output) (op.Output, op.Output) {
	ax, ay, static := broadcastAxes(x, y)
	if static {
		return g.summed(x, y, dx, ax), g.summed(y, x, dy, ay)
	}
	args := g.node("BroadcastGradientArgs", nil, g.shape(x), g.shape(y))
	reduce := func(x, dx op.Output, i int) op.Output {
		if dx.Op == nil {
			return dx
		}
		return g.reshape(g.total(dx, args.Output(i), true), g.shape(x))
	}
	return reduce(x, dx, 0), reduce(y, dy, 1)
}

func (g *call) summed(x, y, dx op.Output, axes []int32) op.Output {
	if dx.Op == nil || len(axes) == 0 && x.Shape().Rank() >= y.Shape().Rank() {
		return dx
	}
	return g.reshape(g.total(dx, g.ints(axes...), true), g.shape(x))
}

// broadcastAxes returns the axes of the common shape along which x and y were broadcast, if enough of their shapes is known.
func broadcastAxes(x, y op.Output) (ax, ay []int32, known bool) {
	dx, rankedX := x.Shape().Dims()
	dy, rankedY := y.Shape().Dims()
	if !rankedX || !rankedY {
		return nil, nil, false
	}
	rank := max(len(dx), len(dy))
	dx = slices.Concat(slices.Repeat(tensor.Shape{1}, rank-len(dx)), dx)
	dy = slices.Concat(slices.Repeat(tensor.Shape{1}, rank-len(dy)), dy)
	for i := range rank {
		switch {
		case dx[i] == 1 && dy[i] != 1:
			ax = append(ax, int32(i))
		case dy[i] == 1 && dx[i] != 1:
			ay = append(ay, int32(i))
		case dx[i] < 0 || dy[i] < 0:
			return nil, nil, false
		}
	}
	return ax, ay, true
}

// kept returns the shape of x with 1 along axes.
func (g *call) kept(x, axes op.Output) op.Output {
	if list, ok := known(axes); ok && x.Shape().Full() {
		dims, _ := x.Shape().Dims()
		for _, a := range list {
			if a < 0 {
				a += int64(len(dims))
			}
			if a >= 0 && a < int64(len(dims)) {
				dims[a] = 1
			}
		}
		return g.vector(tensor.Int32, dims...)
	}
	shape := g.shape(x)
	return g.keptOf(shape, g.cast(axes, tensor.Int32))
}

// keptOf returns an int32 shape with 1 along axes.
func (g *call) keptOf(shape, axes op.Output) op.Output {
	rank := g.op("Size", shape)
	axes = g.op("FloorMod", g.add(axes, rank), rank)
	ones := g.fill(g.shape(axes), g.int(1))
	return g.make("DynamicStitch", nil, op.List{g.span(g.int(0), rank), axes}, op.List{shape, ones})
}
