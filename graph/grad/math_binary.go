package grad

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op"
)

// binary returns the gradients of two inputs that were broadcast, before the sum over broadcast axes.
type binary = func(g *call, x, y, dz op.Output) (dx, dy op.Output)

func init() {
	register(binaryRules, func(f binary) rule {
		return many(func(g *call) []op.Output {
			x, y := g.x(0), g.x(1)
			dx, dy := f(g, x, y, g.d(0))
			dx, dy = g.unbroadcast(x, y, dx, dy)
			return []op.Output{dx, dy}
		})
	})
	register(map[string]func(g *call) []op.Output{
		"AddN": toAll, "AccumulateNV2": toAll,
		"Select": func(g *call) []op.Output {
			zeros := g.zeros(g.x(1))
			return []op.Output{none, g.op("Select", g.x(0), g.d(0), zeros), g.op("Select", g.x(0), zeros, g.d(0))}
		},
		"SelectV2": func(g *call) []op.Output {
			zero := g.number(g.d(0), 0)
			dx, _ := g.unbroadcast(g.x(1), g.Output(0), g.where(g.x(0), g.d(0), zero), none)
			dy, _ := g.unbroadcast(g.x(2), g.Output(0), g.where(g.x(0), zero, g.d(0)), none)
			return []op.Output{none, dx, dy}
		},
		"ClipByValue": func(g *call) []op.Output {
			x, low, high, dy := g.x(0), g.x(1), g.x(2), g.d(0)
			zero := g.number(dy, 0)
			below, above := g.op("Less", x, low), g.op("Greater", x, high)
			dx := g.where(g.op("LogicalOr", below, above), zero, dy)
			dlow, _ := g.unbroadcast(low, g.Output(0), g.where(below, dy, zero), none)
			dhigh, _ := g.unbroadcast(high, g.Output(0), g.where(above, dy, zero), none)
			return []op.Output{dx, dlow, dhigh}
		},
		"Betainc": func(g *call) []op.Output {
			a, b, x := g.x(0), g.x(1), g.x(2)
			one := g.number(x, 1)
			beta := g.sub(g.add(g.op("Lgamma", a), g.op("Lgamma", b)), g.op("Lgamma", g.add(a, b)))
			slope := g.op("Exp", g.sub(g.add(g.op("Xlog1py", g.sub(b, one), g.neg(x)), g.op("Xlogy", g.sub(a, one), x)), beta))
			dx, _ := g.unbroadcast(x, a, g.mul(slope, g.d(0)), none)
			return []op.Output{none, none, dx}
		},
		"Cross": func(g *call) []op.Output {
			return []op.Output{g.op("Cross", g.x(1), g.d(0)), g.op("Cross", g.d(0), g.x(0))}
		},
	}, many)
}

// toAll passes the gradient of a sum to each input.
func toAll(g *call) []op.Output { return slices.Repeat([]op.Output{g.d(0)}, len(g.Inputs())) }

var binaryRules = map[string]binary{
	"Add":   func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return dz, dz },
	"AddV2": func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return dz, dz },
	"Sub":   func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return dz, g.neg(dz) },
	"Mul": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		return g.mul(dz, g.conj(y)), g.mul(g.conj(x), dz)
	},
	"MulNoNan": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		return g.op("MulNoNan", dz, y), g.op("MulNoNan", x, dz)
	},
	"Div":      func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return g.quotient("Div", x, y, dz) },
	"RealDiv":  func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return g.quotient("RealDiv", x, y, dz) },
	"DivNoNan": func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return g.quotient("DivNoNan", x, y, dz) },
	"FloorMod": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		return dz, g.neg(g.mul(dz, g.op("FloorDiv", x, y)))
	},
	"Pow": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		x, y = g.conj(x), g.conj(y)
		dx := g.mul(g.mul(dz, y), g.op("Pow", x, g.sub(y, g.number(y, 1))))
		defined := "Greater"
		if x.DType().Base().IsComplex() {
			defined = "NotEqual"
		}
		mask := g.op(defined, x, g.number(x, 0))
		log := g.where(mask, g.op("Log", g.where(mask, x, g.number(x, 1))), g.number(x, 0))
		return dx, g.mul(g.mul(dz, g.conj(g.Output(0))), log)
	},
	"Maximum": func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return g.chosen("GreaterEqual", x, y, dz) },
	"Minimum": func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return g.chosen("LessEqual", x, y, dz) },
	"SquaredDifference": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		dx := g.mul(g.scaled(dz, 2), g.sub(x, y))
		return dx, g.neg(dx)
	},
	"Atan2": func(g *call, y, x, dz op.Output) (op.Output, op.Output) {
		scaled := g.div(dz, g.add(g.square(y), g.square(x)))
		return g.mul(x, scaled), g.neg(g.mul(y, scaled))
	},
	"Xlogy": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		return g.mul(g.op("Xlogy", g.notZero(x), y), dz), g.mul(g.op("Xdivy", x, y), dz)
	},
	"Xlog1py": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		return g.mul(g.op("Xlog1py", g.notZero(x), y), dz), g.mul(g.op("Xdivy", x, g.add(y, g.number(y, 1))), dz)
	},
	"Xdivy": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		return g.mul(g.op("Xdivy", g.notZero(x), y), dz), g.mul(g.op("Xdivy", g.neg(x), g.square(y)), dz)
	},
	"Igamma":  func(g *call, a, x, dz op.Output) (op.Output, op.Output) { return g.gamma(a, x, dz) },
	"Igammac": func(g *call, a, x, dz op.Output) (op.Output, op.Output) { return g.gamma(a, x, g.neg(dz)) },
	"Zeta": func(g *call, x, q, dz op.Output) (op.Output, op.Output) {
		return none, g.mul(g.mul(g.neg(x), g.op("Zeta", g.add(x, g.number(x, 1)), q)), dz)
	},
	"Polygamma": func(g *call, n, x, dz op.Output) (op.Output, op.Output) {
		return none, g.mul(g.op("Polygamma", g.add(n, g.number(n, 1)), x), dz)
	},
	"NextAfter": func(g *call, x, y, dz op.Output) (op.Output, op.Output) { return dz, g.zeros(dz) },
	"Complex": func(g *call, x, y, dz op.Output) (op.Output, op.Output) {
		attrs := map[string]any{"Tout": x.DType().Base()}
		return g.make("Real", attrs, dz), g.make("Imag", attrs, dz)
	},
}

// quotient returns the gradients of x/y; div is the op that divides.
func (g *call) quotient(div string, x, y, dz op.Output) (op.Output, op.Output) {
	x, y = g.conj(x), g.conj(y)
	return g.op(div, dz, y), g.mul(dz, g.op(div, g.op(div, g.neg(x), y), y))
}

// chosen passes the gradient to x where the comparison holds, else to y.
func (g *call) chosen(compare string, x, y, dz op.Output) (op.Output, op.Output) {
	mask, zero := g.op(compare, x, y), g.number(dz, 0)
	return g.where(mask, dz, zero), g.where(mask, zero, dz)
}

// notZero returns 1 where x is not 0, and 0 where it is.
func (g *call) notZero(x op.Output) op.Output {
	return g.cast(g.op("NotEqual", x, g.number(x, 0)), x.DType().Base())
}

// gamma returns the gradients of the lower incomplete gamma function.
func (g *call) gamma(a, x, dz op.Output) (op.Output, op.Output) {
	log := g.sub(g.mul(g.sub(a, g.number(a, 1)), g.op("Log", x)), g.op("Lgamma", a))
	return g.mul(g.op("IgammaGradA", a, x), dz), g.mul(g.op("Exp", g.sub(log, x)), dz)
}
