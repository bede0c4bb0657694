package grad

import "github.com/troupe-run/troupe/graph/op"

func init() {
	for rank, axes := range []string{"", "2D", "3D"} {
		register(map[string]unary{
			"FFT" + axes: func(g *call, x, y, dy op.Output) op.Output {
				return g.mul(g.op("IFFT"+axes, dy), g.points(dy, rank+1))
			},
			"IFFT" + axes: func(g *call, x, y, dy op.Output) op.Output {
				return g.div(g.op("FFT"+axes, dy), g.points(dy, rank+1))
			},
			"RFFT" + axes: func(g *call, x, y, dy op.Output) op.Output {
				// The result does not depend on what the op excludes from the transform.
				whole := g.fit(dy, g.x(1), rank+1)
				full := g.mul(g.op("IFFT"+axes, whole), g.points(whole, rank+1))
				real := g.make("Real", map[string]any{"Tout": x.DType().Base()}, full)
				return g.fit(real, g.ending(x, rank+1), rank+1)
			},
			"IRFFT" + axes: func(g *call, x, y, dy op.Output) op.Output {
				t := x.DType().Base()
				d := g.make("RFFT"+axes, map[string]any{"Tcomplex": t}, dy, g.x(1))
				// All elements but the first, and the middle one if their number is even, stand for two.
				last := g.at(g.x(1), -1)
				at := g.span(g.int(0), g.at(g.shape(d), -1))
				single := g.op("LogicalOr", g.op("Equal", at, g.int(0)), g.op("Equal", g.scaled(at, 2), last))
				weight := g.where(single, g.number(d, 1), g.number(d, 2))
				d = g.div(g.mul(d, weight), g.cast(g.points(dy, rank+1), t))
				return g.fit(d, g.ending(x, rank+1), rank+1)
			},
		}, one)
	}
}

// ending returns the sizes of the last axes.
func (g *call) ending(x op.Output, n int) op.Output { return g.from(g.shape(x), int32(-n)) }

// points returns the number of elements in the last axes, in the type of x.
func (g *call) points(x op.Output, n int) op.Output {
	return g.cast(g.op("Prod", g.ending(x, n), g.ints(0)), x.DType().Base())
}

// fit truncates the last axes to sizes, or pads them with zeros.
func (g *call) fit(x, sizes op.Output, n int) op.Output {
	have := g.shape(x)
	outer := g.head(have, int32(n))
	zeros := g.zeros(outer)
	more := g.op("Maximum", g.sub(sizes, g.ending(x, n)), g.int(0))
	more = g.concat(0, zeros, more)
	x = g.op("Pad", x, g.make("Pack", map[string]any{"axis": 1}, op.List{g.zeros(more), more}))
	return g.op("Slice", x, g.zeros(have), g.concat(0, outer, sizes))
}
