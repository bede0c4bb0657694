package gradients

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

var mathCases = slices.Concat(
	calls(in(2, 3), "Abs", "Neg", "Square", "Exp", "Expm1", "Sinh", "Cosh", "Tanh", "Asinh", "Sin", "Cos", "Tan", "Atan", "Erf", "Erfc",
		"Sigmoid", "Softplus", "Softsign", "L2Loss", "Dawsn", "FresnelCos", "FresnelSin", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e",
		"BesselJ0", "BesselJ1", "Relu", "Relu6", "Elu", "Selu", "LeakyRelu", "Softmax", "LogSoftmax", "Inv", "Reciprocal", "Atanh", "Asin", "Acos"),
	calls(in(2, 3).between(0.3, 3), "Sqrt", "Rsqrt", "Log", "Log1p", "Lgamma", "Digamma", "Expint", "Spence", "BesselK0", "BesselK0e", "BesselK1",
		"BesselK1e", "BesselY0", "BesselY1"),
	calls(in(2, 3).between(1.2, 3), "Acosh"),
	calls(in(2, 3).between(-0.8, 0.8), "Erfinv", "Asin", "Acos", "Atanh"),
	calls(in(2, 3).between(0.1, 0.9), "Ndtri"),
	calls(in(2, 2).of(tensor.Complex128), "Neg", "Square", "Exp", "Expm1", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Tanh", "Asinh", "Atan", "Sigmoid",
		"Conj", "Sqrt", "Rsqrt", "Log", "Log1p", "Reciprocal", "Inv"),
	pairs(in(), in(), "Add", "AddV2", "Sub", "Mul", "MulNoNan", "Maximum", "Minimum", "SquaredDifference", "Atan2"),
	pairs(in(), in().between(0.5, 2), "Div", "RealDiv", "DivNoNan", "Xlogy", "Xlog1py", "Xdivy", "FloorMod"),
	pairs(in().between(0.5, 2), in(), "Pow"),
	pairs(in().of(tensor.Complex128), in().of(tensor.Complex128), "Mul", "AddV2", "Sub", "RealDiv", "Pow"),
	pairs(in().between(0.5, 2), in().between(0.5, 2), "Igamma", "Igammac", "NextAfter")[:8],
	[]gradCase{
		nextAfter(), polygamma("Polygamma", 2), polygamma("Zeta", 3), betainc(),
		call("Complex", attrs{"Tout": tensor.Complex128}, in(2, 3), in(2, 3)), call("Complex", attrs{"Tout": tensor.Complex128}, in(2, 3), in(3)),
		part("Real"), part("Imag"), part("Angle"), part("ComplexAbs"),
		castCase(),
		call("ClipByValue", nil, in(2, 4).apart(), number(-0.41), number(0.43)),
		call("Cross", nil, in(2, 3), in(2, 3)),
		list("AddN", nil, in(2, 3), in(2, 3), in(2, 3)),
		list("AccumulateNV2", attrs{"shape": shape23}, in(2, 3), in(2, 3)),
		call("Select", nil, in(2, 2).of(tensor.Bool).with(1, 0, 0, 1).fixed(), in(2, 2), in(2, 2)),
		call("SelectV2", nil, in(2, 2).of(tensor.Bool).with(1, 0, 0, 1).fixed(), in(2), in(2, 1)),
		call("SelectV2", nil, in(2).of(tensor.Bool).with(1, 0).fixed(), in(3, 2), in()),
	},
	// The gradients' own ops, for derivatives of higher order.
	eachCall([]string{"ReciprocalGrad", "InvGrad", "SqrtGrad", "RsqrtGrad", "TanhGrad", "SigmoidGrad", "ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad",
		"SeluGrad", "SoftplusGrad"}, in(2, 3), in(2, 3)),
	reductions(),
	products(),
)

var shape23 = tensorShape(2, 3)

// reductions returns cases over all, some and no axes, kept or not.
func reductions() (out []gradCase) {
	for _, name := range []string{"Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"} {
		for _, axes := range []input{ints(0, 1), ints(-1), ints(0, 2), scalar(1), ints(2, 0, 1)} {
			for _, keep := range []bool{false, true} {
				out = append(out, call(name, attrs{"keep_dims": keep}, in(2, 3, 2).apart().between(0.2, 1), axes))
			}
		}
	}
	zeros := in(3, 2).with(0, 2, 0, 3, 4, 0)
	out = append(out, call("Prod", nil, zeros, ints(0)), call("Prod", nil, in(2, 2).of(tensor.Complex128), ints(0)), call("Sum", nil, in(2, 3), longs(1)))
	for _, name := range []string{"Cumsum", "Cumprod", "CumulativeLogsumexp"} {
		for _, exclusive := range []bool{false, true} {
			for _, reverse := range []bool{false, true} {
				out = append(out, call(name, attrs{"exclusive": exclusive, "reverse": reverse}, in(3, 2).between(0.5, 2), scalar(0)))
			}
		}
	}
	return out
}

// products returns products of matrices, transposed in all ways.
func products() (out []gradCase) {
	for turn := range 4 {
		tx, ty := turn&1 != 0, turn&2 != 0
		sizes := func(r, c int64, turned bool, batch ...int64) input {
			if turned {
				r, c = c, r
			}
			return in(append(batch, r, c)...)
		}
		z := tensor.Complex128
		out = append(out,
			call("MatMul", attrs{"transpose_a": tx, "transpose_b": ty}, sizes(2, 3, tx), sizes(3, 4, ty)),
			call("MatMul", attrs{"transpose_a": tx, "transpose_b": ty}, sizes(2, 1, tx).of(z), sizes(1, 2, ty).of(z)),
			call("BatchMatMul", attrs{"adj_x": tx, "adj_y": ty}, sizes(2, 3, tx, 2), sizes(3, 1, ty, 2)),
			call("BatchMatMulV2", attrs{"adj_x": tx, "adj_y": ty}, sizes(2, 3, tx, 2), sizes(3, 1, ty, 2)),
			call("BatchMatMulV2", attrs{"adj_x": tx, "adj_y": ty}, sizes(2, 3, tx, 2, 1), sizes(3, 1, ty, 2)),
			call("BatchMatMulV2", attrs{"adj_x": tx, "adj_y": ty}, sizes(1, 2, tx, 2).of(z), sizes(2, 1, ty).of(z)),
			call("BatchMatMulV3", attrs{"adj_x": tx, "adj_y": ty, "Tout": tensor.Float64}, sizes(2, 3, tx), sizes(3, 1, ty, 2)))
	}
	return out
}

// list makes a case of an op with one list of tensors.
func list(name string, a attrs, in ...input) gradCase {
	return gradCase{name: name, in: in, f: func(s *op.Scope, x []op.Output) []op.Output { return floats(node(s, name, a, op.List(x))) }}
}

func eachCall(names []string, in ...input) (out []gradCase) {
	for _, name := range names {
		out = append(out, call(name, nil, in...))
	}
	return out
}

func castCase() gradCase {
	return gradCase{name: "Cast", in: []input{in(3)}, tolerance: 1e-6, f: func(s *op.Scope, x []op.Output) []op.Output {
		z := node(s, "Cast", attrs{"DstT": tensor.Complex128}, x[0]).Output(0)
		back := node(s, "Cast", attrs{"DstT": tensor.Float64}, node(s, "Mul", nil, z, z).Output(0)).Output(0)
		// A value that passes through integers has no gradient.
		whole := node(s, "Cast", attrs{"DstT": tensor.Float64}, node(s, "Cast", attrs{"DstT": tensor.Int64}, x[0]).Output(0)).Output(0)
		return []op.Output{node(s, "AddV2", nil, back, whole).Output(0)}
	}}
}

// nextAfter returns a case whose result differs from x by too little to affect differences.
func nextAfter() gradCase {
	return gradCase{name: "NextAfter", in: []input{in(2, 1), in(3).fixed()}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return floats(node(s, "NextAfter", nil, x[0], x[1]))
	}}
}

// polygamma has a gradient only for its second argument.
func polygamma(name string, n float64) gradCase {
	return call(name, nil, number(n).fixed(), in(2, 2).between(1, 2))
}

func betainc() gradCase {
	c := call("Betainc", nil, in(2).between(1, 2).fixed(), in(2).between(1, 2).fixed(), in(2).between(0.2, 0.8))
	return c
}

func part(name string) gradCase {
	return call(name, attrs{"Tout": tensor.Float64}, in(3).of(tensor.Complex128))
}
