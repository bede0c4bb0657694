package grad

import (
	"math"

	"github.com/troupe-run/troupe/graph/op"
)

type unary = func(g *call, x, y, dy op.Output) op.Output

func init() {
	register(unaryRules, one)
	register(derivatives, func(f derivative) rule {
		return one(func(g *call, x, y, dy op.Output) op.Output { return g.mul(dy, f(g, g.conj(x), y)) })
	})
}

// derivative returns y' of y = f(x); its product with dy is the gradient. A complex x is passed conjugated.
type derivative = func(g *call, x, y op.Output) op.Output

// derivatives holds the derivatives of functions of one argument.
var derivatives = map[string]derivative{
	"Abs":    func(g *call, x, y op.Output) op.Output { return g.op("Sign", x) },
	"Square": func(g *call, x, y op.Output) op.Output { return g.scaled(x, 2) },
	"Exp":    func(g *call, x, y op.Output) op.Output { return g.conj(y) },
	"Expm1":  func(g *call, x, y op.Output) op.Output { return g.op("Exp", x) },
	"Log":    func(g *call, x, y op.Output) op.Output { return g.op("Reciprocal", x) },
	"Log1p":  func(g *call, x, y op.Output) op.Output { return g.op("Reciprocal", g.add(g.number(x, 1), x)) },
	"Sinh":   func(g *call, x, y op.Output) op.Output { return g.op("Cosh", x) },
	"Cosh":   func(g *call, x, y op.Output) op.Output { return g.op("Sinh", x) },
	"Asinh":  func(g *call, x, y op.Output) op.Output { return g.op("Reciprocal", g.op("Cosh", g.conj(y))) },
	"Acosh":  func(g *call, x, y op.Output) op.Output { return g.op("Reciprocal", g.op("Sinh", g.conj(y))) },
	"Atanh":  func(g *call, x, y op.Output) op.Output { return g.op("Reciprocal", g.sub(g.number(x, 1), g.square(x))) },
	"Sin":    func(g *call, x, y op.Output) op.Output { return g.op("Cos", x) },
	"Cos":    func(g *call, x, y op.Output) op.Output { return g.neg(g.op("Sin", x)) },
	"Tan":    func(g *call, x, y op.Output) op.Output { return g.square(g.op("Reciprocal", g.op("Cos", x))) },
	"Asin":   func(g *call, x, y op.Output) op.Output { return g.slopeOfAsin(x) },
	"Acos":   func(g *call, x, y op.Output) op.Output { return g.neg(g.slopeOfAsin(x)) },
	"Atan":   func(g *call, x, y op.Output) op.Output { return g.op("Reciprocal", g.add(g.number(x, 1), g.square(x))) },
	"Erf":    func(g *call, x, y op.Output) op.Output { return g.bell(x, 2/math.SqrtPi) },
	"Erfc":   func(g *call, x, y op.Output) op.Output { return g.bell(x, -2/math.SqrtPi) },
	"Erfinv": func(g *call, x, y op.Output) op.Output {
		return g.scaled(g.op("Exp", g.square(y)), math.Sqrt(math.Pi)/2)
	},
	"Ndtri": func(g *call, x, y op.Output) op.Output {
		return g.scaled(g.op("Exp", g.scaled(g.square(y), 0.5)), math.Sqrt(2*math.Pi))
	},
	"Lgamma":  func(g *call, x, y op.Output) op.Output { return g.op("Digamma", x) },
	"Digamma": func(g *call, x, y op.Output) op.Output { return g.op("Polygamma", g.number(x, 1), x) },
	"Dawsn":   func(g *call, x, y op.Output) op.Output { return g.sub(g.number(x, 1), g.scaled(g.mul(x, y), 2)) },
	"Expint":  func(g *call, x, y op.Output) op.Output { return g.div(g.op("Exp", x), x) },
	"FresnelCos": func(g *call, x, y op.Output) op.Output {
		return g.op("Cos", g.scaled(g.square(x), math.Pi/2))
	},
	"FresnelSin": func(g *call, x, y op.Output) op.Output {
		return g.op("Sin", g.scaled(g.square(x), math.Pi/2))
	},
	"Spence": func(g *call, x, y op.Output) op.Output {
		one := g.number(x, 1)
		return g.where(g.op("Equal", x, one), g.number(x, -1), g.div(g.op("Log", x), g.sub(one, x)))
	},
	"BesselI0": func(g *call, x, y op.Output) op.Output { return g.op("BesselI1", x) },
	"BesselI0e": func(g *call, x, y op.Output) op.Output {
		return g.sub(g.op("BesselI1e", x), g.mul(g.op("Sign", x), y))
	},
	"BesselI1": func(g *call, x, y op.Output) op.Output {
		return g.unlessZero(x, 1, g.sub(g.op("BesselI0", x), g.div(y, x)))
	},
	"BesselI1e": func(g *call, x, y op.Output) op.Output {
		slope := g.add(g.op("Sign", x), g.op("Reciprocal", x))
		return g.unlessZero(x, 0.5, g.sub(g.op("BesselI0e", x), g.mul(y, slope)))
	},
	"BesselK0":  func(g *call, x, y op.Output) op.Output { return g.neg(g.op("BesselK1", x)) },
	"BesselK0e": func(g *call, x, y op.Output) op.Output { return g.sub(y, g.op("BesselK1e", x)) },
	"BesselK1": func(g *call, x, y op.Output) op.Output {
		return g.sub(g.neg(g.op("BesselK0", x)), g.div(y, x))
	},
	"BesselK1e": func(g *call, x, y op.Output) op.Output {
		return g.sub(g.mul(y, g.sub(g.number(x, 1), g.op("Reciprocal", x))), g.op("BesselK0e", x))
	},
	"BesselJ0": func(g *call, x, y op.Output) op.Output { return g.neg(g.op("BesselJ1", x)) },
	"BesselJ1": func(g *call, x, y op.Output) op.Output {
		return g.unlessZero(x, 0.5, g.sub(g.op("BesselJ0", x), g.div(y, x)))
	},
	"BesselY0": func(g *call, x, y op.Output) op.Output { return g.neg(g.op("BesselY1", x)) },
	"BesselY1": func(g *call, x, y op.Output) op.Output { return g.sub(g.op("BesselY0", x), g.div(y, x)) },
	"Softplus": func(g *call, x, y op.Output) op.Output { return g.op("Sigmoid", x) },
	"L2Loss":   func(g *call, x, y op.Output) op.Output { return x },
}

func (g *call) slopeOfAsin(x op.Output) op.Output {
	return g.op("Reciprocal", g.op("Sqrt", g.sub(g.number(x, 1), g.square(x))))
}

// bell returns scale·exp(−x²).
func (g *call) bell(x op.Output, scale float64) op.Output {
	return g.scaled(g.op("Exp", g.neg(g.square(x))), scale)
}

// unlessZero returns v, or limit where x is 0 and v is undefined.
func (g *call) unlessZero(x op.Output, limit float64, v op.Output) op.Output {
	return g.where(g.op("Equal", x, g.number(x, 0)), g.number(x, limit), v)
}

// unaryRules holds the rules of ops of one argument whose gradient is not dy·f'(x) or is computed by a separate op.
var unaryRules = map[string]unary{
	"Neg":        func(g *call, x, y, dy op.Output) op.Output { return g.neg(dy) },
	"Inv":        func(g *call, x, y, dy op.Output) op.Output { return g.op("ReciprocalGrad", y, dy) },
	"Reciprocal": func(g *call, x, y, dy op.Output) op.Output { return g.op("ReciprocalGrad", y, dy) },
	"Sqrt":       func(g *call, x, y, dy op.Output) op.Output { return g.op("SqrtGrad", y, dy) },
	"Rsqrt":      func(g *call, x, y, dy op.Output) op.Output { return g.op("RsqrtGrad", y, dy) },
	"Tanh":       func(g *call, x, y, dy op.Output) op.Output { return g.op("TanhGrad", g.conj(y), dy) },
	"Sigmoid":    func(g *call, x, y, dy op.Output) op.Output { return g.op("SigmoidGrad", g.conj(y), dy) },
	"Conj":       func(g *call, x, y, dy op.Output) op.Output { return g.op("Conj", dy) }, // of complex numbers, or of a sparse matrix
	"Real":       func(g *call, x, y, dy op.Output) op.Output { return g.complex(dy, g.number(dy, 0), x) },
	"Imag":       func(g *call, x, y, dy op.Output) op.Output { return g.complex(g.number(dy, 0), dy, x) },
	"Angle": func(g *call, x, y, dy op.Output) op.Output {
		attrs := g.attrs("Tout")
		z := g.op("Reciprocal", g.complex(g.make("Imag", attrs, x), g.make("Real", attrs, x), x))
		return g.neg(g.mul(g.complex(dy, g.number(dy, 0), x), z))
	},
	"ComplexAbs": func(g *call, x, y, dy op.Output) op.Output {
		zero := g.number(dy, 0)
		return g.op("DivNoNan", g.mul(g.complex(dy, zero, x), x), g.complex(y, zero, x))
	},
	"Cast": func(g *call, x, y, dy op.Output) op.Output {
		if t := x.DType().Base(); t.IsFloating() || t.IsComplex() {
			return g.cast(dy, t)
		}
		return none
	},
	"Softmax": func(g *call, x, y, dy op.Output) op.Output {
		return g.mul(g.sub(dy, g.total(g.mul(dy, y), g.ints(-1), true)), y)
	},
	"LogSoftmax": func(g *call, x, y, dy op.Output) op.Output {
		return g.sub(dy, g.mul(g.total(dy, g.ints(-1), true), g.op("Exp", y)))
	},
	"Relu":     func(g *call, x, y, dy op.Output) op.Output { return g.op("ReluGrad", dy, y) },
	"Relu6":    func(g *call, x, y, dy op.Output) op.Output { return g.op("Relu6Grad", dy, y) },
	"Elu":      func(g *call, x, y, dy op.Output) op.Output { return g.op("EluGrad", dy, y) },
	"Selu":     func(g *call, x, y, dy op.Output) op.Output { return g.op("SeluGrad", dy, y) },
	"Softsign": func(g *call, x, y, dy op.Output) op.Output { return g.op("SoftsignGrad", dy, x) },
	"LeakyRelu": func(g *call, x, y, dy op.Output) op.Output {
		return g.make("LeakyReluGrad", g.attrs("alpha"), dy, x)
	},
}

// complex returns a number of the type of like from its parts.
func (g *call) complex(re, im, like op.Output) op.Output {
	return g.make("Complex", map[string]any{"Tout": like.DType().Base()}, re, im)
}

// secondRules holds the rules of ops that themselves compute gradients, for derivatives of higher order.
var secondRules = map[string]func(g *call, x0, x1, dy op.Output) (op.Output, op.Output){
	"InvGrad":        secondReciprocal,
	"ReciprocalGrad": secondReciprocal,
	"SqrtGrad": func(g *call, a, b, dy op.Output) (op.Output, op.Output) {
		q := g.div(dy, a)
		return g.neg(g.mul(g.conj(q), g.Output(0))), g.scaled(q, 0.5)
	},
	"RsqrtGrad": func(g *call, a, b, dy op.Output) (op.Output, op.Output) {
		a, dy = g.conj(a), g.conj(dy)
		return g.scaled(g.mul(g.mul(dy, b), g.square(a)), -1.5), g.op("RsqrtGrad", a, dy)
	},
	"TanhGrad": func(g *call, a, b, dy op.Output) (op.Output, op.Output) {
		a, b = g.conj(a), g.conj(b)
		return g.scaled(g.mul(g.mul(dy, b), a), -2), g.op("TanhGrad", a, dy)
	},
	"SigmoidGrad": func(g *call, a, b, dy op.Output) (op.Output, op.Output) {
		a, b = g.conj(a), g.conj(b)
		gb := g.mul(dy, b)
		return g.sub(gb, g.scaled(g.mul(gb, a), 2)), g.op("SigmoidGrad", a, dy)
	},
	"ReluGrad":  func(g *call, b, x, dy op.Output) (op.Output, op.Output) { return g.op("ReluGrad", dy, x), none },
	"Relu6Grad": func(g *call, b, x, dy op.Output) (op.Output, op.Output) { return g.op("Relu6Grad", dy, x), none },
	"LeakyReluGrad": func(g *call, b, x, dy op.Output) (op.Output, op.Output) {
		return g.make("LeakyReluGrad", g.attrs("alpha"), dy, x), none
	},
	"EluGrad":  func(g *call, b, y, dy op.Output) (op.Output, op.Output) { return g.whereNegative("EluGrad", b, y, dy) },
	"SeluGrad": func(g *call, b, y, dy op.Output) (op.Output, op.Output) { return g.whereNegative("SeluGrad", b, y, dy) },
	"SoftplusGrad": func(g *call, b, x, dy op.Output) (op.Output, op.Output) {
		curve := g.add(g.add(g.op("Exp", g.neg(x)), g.number(x, 2)), g.op("Exp", x))
		return g.op("SoftplusGrad", dy, x), g.div(g.mul(dy, b), curve)
	},
}

func secondReciprocal(g *call, a, b, dy op.Output) (op.Output, op.Output) {
	a, dy = g.conj(a), g.conj(dy)
	return g.mul(g.mul(g.scaled(dy, -2), b), a), g.op("ReciprocalGrad", a, dy)
}

func (g *call) whereNegative(name string, b, y, dy op.Output) (op.Output, op.Output) {
	zero := g.number(y, 0)
	return g.op(name, dy, y), g.where(g.op("Less", y, zero), g.mul(dy, b), zero)
}

func init() {
	register(secondRules, func(f func(g *call, x0, x1, dy op.Output) (op.Output, op.Output)) rule {
		return many(func(g *call) []op.Output {
			d0, d1 := f(g, g.x(0), g.x(1), g.d(0))
			return []op.Output{d0, d1}
		})
	})
	for _, name := range flat {
		rules[name] = nil
	}
}

// flat lists ops whose derivative is zero or undefined in all inputs: no gradient flows through them.
var flat = []string{
	"Sign", "Floor", "Ceil", "Round", "Rint", "FloorDiv", "TruncateDiv", "ArgMax", "ArgMin",
	"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "ApproximateEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
	"IsNan", "IsInf", "IsFinite", "Range", "LinSpace", "Bincount", "DenseBincount", "Histogram", "HistogramFixedWidth", "Bucketize", "SearchSorted",
	"Const", "ZerosLike", "OnesLike", "StopGradient", "Shape", "ShapeN", "Rank", "Size", "BroadcastGradientArgs", "BroadcastArgs", "ConcatOffset",
	"InvertPermutation", "OneHot", "EditDistance", "Where", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "ListDiff", "Bitcast",
	"BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift", "PopulationCount", "InTopK", "InTopKV2", "Any", "All",
	"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "ParameterizedTruncatedNormal", "RandomShuffle", "RandomUniformInt", "Multinomial", "RandomPoisson", "RandomPoissonV2",
	"StatelessMultinomial", "StatelessRandomBinomial", "StatelessRandomNormal", "StatelessRandomNormalV2", "StatelessRandomUniform", "StatelessRandomUniformV2",
	"StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", "StatelessRandomPoisson",
	"VariableShape", "VarIsInitializedOp", "IsVariableInitialized", "VarHandleOp", "VariableV2", "Variable",
	"Assign", "AssignAdd", "AssignSub", "ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate",
	"TensorListLength", "TensorListElementShape", "TensorArraySizeV3", "SparseAddGrad", "SparseConcat", "StringToNumber", "DecodeRaw", "DecodePaddedRaw", "ParseTensor",
	"QueueDequeue", "QueueDequeueV2", "QueueDequeueMany", "QueueDequeueManyV2", "QueueDequeueUpTo", "QueueDequeueUpToV2",
	"LookupTableFind", "LookupTableFindV2", "GetSessionTensor", "StackPop", "StackPopV2", "ScalarSummary", "HistogramSummary", "ImageSummary", "ResizeBilinearGrad",
}
