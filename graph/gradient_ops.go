package graph

import (
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// grad is a node being differentiated, with its inputs x and the gradients dy of its outputs.
type grad struct {
	*backprop
	node  *Node
	x, dy []value
	t     *attrpb.AttrValue // its attribute T
}

// gradientsOf maps an op to the function that computes the gradients of its inputs. The ops are those for which TensorFlow's runtime has
// gradients (core/ops/*_grad.cc; the client has its own, and more). nil marks ops through which no gradient flows.
var gradientsOf = map[string]func(g *grad) ([]value, error){}

func init() {
	for _, op := range []string{"Shape", "Rank", "Size", "ZerosLike", "OnesLike", "Const", "EditDistance", "StopGradient",
		"FakeQuantWithMinMaxArgsGradient", "FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient",
		"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
		"Range", "LinSpace", "Floor", "FloorDiv", "TruncateDiv", "RandomUniform",
		"StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessMultinomial"} {
		gradientsOf[op] = nil
	}
	for op, f := range unaryGradients {
		gradientsOf[op] = func(g *grad) ([]value, error) { return []value{f(g, g.x[0], g.dy[0])}, nil }
	}
	for op, f := range binaryGradients {
		gradientsOf[op] = func(g *grad) ([]value, error) { return g.broadcast(f), nil }
	}
	for op, f := range otherGradients {
		gradientsOf[op] = f
	}
}

// op adds a node whose attribute T is that of the node being differentiated.
func (g *grad) op(op string, inputs ...value) value {
	return g.backprop.node(op, Attrs{"T": g.t}, inputs...)
}

// ints adds a node that works on int32.
func (g *grad) ints(op string, inputs ...value) value {
	return g.backprop.node(op, Attrs{"T": typeOf(tensor.Int32)}, inputs...)
}

// attrs returns some of the node's own attributes.
func (g *grad) attrs(names ...string) Attrs {
	a := Attrs{}
	for _, n := range names {
		if v, ok := g.node.Attrs[n]; ok {
			a[n] = v
		}
	}
	return a
}

// with sets one more attribute in a and returns a.
func (a Attrs) with(name string, v *attrpb.AttrValue) Attrs {
	a[name] = v
	return a
}

// number returns a constant of the node's type.
func (g *grad) number(v float32) value {
	c := g.backprop.node("Const", Attrs{"dtype": typeOf(tensor.Float32), "value": {Value: &attrpb.AttrValue_Tensor{Tensor: &tensorpb.TensorProto{
		Dtype: tensor.Float32.Proto(), TensorShape: &shapepb.TensorShapeProto{}, FloatVal: []float32{v}}}}})
	return g.cast(c, typeOf(tensor.Float32), g.t)
}

// int returns a constant scalar, or a vector of one element.
func (g *grad) int(v int32, vector bool) value {
	shape := &shapepb.TensorShapeProto{}
	if vector {
		shape.Dim = []*shapepb.TensorShapeProto_Dim{{Size: 1}}
	}
	return g.backprop.node("Const", Attrs{"dtype": typeOf(tensor.Int32), "value": {Value: &attrpb.AttrValue_Tensor{Tensor: &tensorpb.TensorProto{
		Dtype: tensor.Int32.Proto(), TensorShape: shape, IntVal: []int32{v}}}}})
}

func (g *grad) cast(v value, from, to *attrpb.AttrValue) value {
	if from.GetType() == to.GetType() {
		return v
	}
	return g.backprop.node("Cast", Attrs{"SrcT": from, "DstT": to}, v)
}

// mask converts a bool to the node's type.
func (g *grad) mask(v value) value { return g.cast(v, typeOf(tensor.Bool), g.t) }

// zeros returns zeros for input i, which receives no gradient.
func (g *grad) zeros(i int) value {
	return g.backprop.node("ZerosLike", Attrs{"T": typeOf(g.node.InTypes[i].Base())}, g.x[i])
}

// toInt32 returns input i, an index of either type, as int32.
func (g *grad) toInt32(i int) value {
	return g.cast(g.x[i], typeOf(g.node.InTypes[i].Base()), typeOf(tensor.Int32))
}

// call returns the gradients of a call of a library function.
func (g *grad) call() []value {
	var in, out []*attrpb.AttrValue
	for _, t := range g.node.InTypes {
		in = append(in, typeOf(t.Base()))
		if t == tensor.Resource {
			t = tensor.Float32
		}
		out = append(out, typeOf(t.Base()))
	}
	for _, t := range g.node.OutTypes {
		in = append(in, typeOf(t.Base()))
	}
	types := func(list []*attrpb.AttrValue) *attrpb.AttrValue {
		l := &attrpb.AttrValue_ListValue{}
		for _, t := range list {
			l.Type = append(l.Type, t.GetType())
		}
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: l}}
	}
	f := &attrpb.NameAttrList{Name: g.node.Op, Attr: g.node.Attrs}
	v := g.backprop.node(gradientOp, Attrs{"f": {Value: &attrpb.AttrValue_Func{Func: f}}, "Tin": types(in), "Tout": types(out)},
		append(slices.Clone(g.x), g.dy...)...)
	return outputs(v, len(g.x))
}

// outputs returns the first n outputs of a node.
func outputs(v value, n int) []value {
	list := make([]value, n)
	for i := range list {
		list[i] = v.output(i)
	}
	return list
}

var unaryGradients = map[string]func(g *grad, x, dy value) value{
	"Identity":   func(g *grad, x, dy value) value { return dy },
	"Abs":        func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Sign", x)) },
	"Neg":        func(g *grad, x, dy value) value { return g.op("Neg", dy) },
	"Inv":        reciprocalGradient,
	"Reciprocal": reciprocalGradient,
	"Square":     func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Mul", x, g.number(2))) },
	"Sqrt": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Mul", g.number(0.5), g.op("Reciprocal", g.op("Sqrt", x))))
	},
	"Rsqrt": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Mul", g.op("Mul", g.number(-0.5), g.op("Reciprocal", x)), g.op("Rsqrt", x)))
	},
	"Exp":   func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Exp", x)) },
	"Expm1": func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Exp", x)) },
	"Log":   func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Reciprocal", x)) },
	"Log1p": func(g *grad, x, dy value) value { return g.op("Div", dy, g.op("AddV2", g.number(1), x)) },
	"Sinh":  func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Cosh", x)) },
	"Cosh":  func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Sinh", x)) },
	"Tanh": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Sub", g.number(1), g.op("Square", g.op("Tanh", x))))
	},
	"Asinh": func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Cosh", g.op("Asinh", x))) },
	"Acosh": func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Sinh", g.op("Acosh", x))) },
	"Atanh": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Reciprocal", g.op("Sub", g.number(1), g.op("Square", x))))
	},
	"Sigmoid": func(g *grad, x, dy value) value {
		y := g.op("Sigmoid", x)
		return g.op("Mul", dy, g.op("Mul", y, g.op("Sub", g.number(1), y)))
	},
	"Sign": func(g *grad, x, dy value) value { return g.op("Fill", g.op("Shape", x), g.number(0)) },
	"Sin":  func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Cos", x)) },
	"Cos":  func(g *grad, x, dy value) value { return g.op("Mul", dy, g.op("Neg", g.op("Sin", x))) },
	"Acos": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Neg", g.op("Reciprocal", g.op("Sqrt", g.op("Sub", g.number(1), g.op("Square", x))))))
	},
	"Asin": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Reciprocal", g.op("Sqrt", g.op("Sub", g.number(1), g.op("Square", x)))))
	},
	"Atan": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Reciprocal", g.op("AddV2", g.number(1), g.op("Square", x))))
	},
	"Tan": func(g *grad, x, dy value) value {
		return g.op("Mul", dy, g.op("Square", g.op("Reciprocal", g.op("Cos", x))))
	},
	"Real":  func(g *grad, x, dy value) value { return g.complex(dy, g.realOf("ZerosLike", dy)) },
	"Imag":  func(g *grad, x, dy value) value { return g.complex(g.realOf("ZerosLike", dy), dy) },
	"Angle": angleGradient,
	"Conj":  func(g *grad, x, dy value) value { return g.op("Conj", dy) },
	"Cast": func(g *grad, x, dy value) value {
		return g.cast(dy, g.node.Attrs["DstT"], g.node.Attrs["SrcT"])
	},
	"Squeeze": func(g *grad, x, dy value) value { return g.op("Reshape", dy, g.op("Shape", x)) },
	"Relu":    func(g *grad, x, dy value) value { return g.op("ReluGrad", dy, x) },
	"Relu6":   func(g *grad, x, dy value) value { return g.op("Relu6Grad", dy, x) },
	"Softmax": func(g *grad, x, dy value) value {
		y := g.op("Softmax", x)
		return g.op("Mul", g.op("Sub", dy, g.last(g.op("Mul", dy, y))), y)
	},
	"LogSoftmax": func(g *grad, x, dy value) value {
		return g.op("Sub", dy, g.op("Mul", g.last(dy), g.op("Softmax", x)))
	},
	"ReadVariableOp": func(g *grad, x, dy value) value { return dy },
}

func reciprocalGradient(g *grad, x, dy value) value {
	return g.op("Mul", dy, g.op("Neg", g.op("Square", g.op("Reciprocal", x))))
}

func angleGradient(g *grad, x, dy value) value {
	complexOf := func(re, im value) value { return g.complex(re, im) }
	re := g.backprop.node("Real", g.attrs("T", "Tout"), x)
	im := g.backprop.node("Imag", g.attrs("T", "Tout"), x)
	z := g.op("Neg", g.op("Reciprocal", complexOf(im, re)))
	return g.op("Mul", z, complexOf(dy, g.realOf("ZerosLike", dy)))
}

// last sums over the last axis and keeps it as size one.
func (g *grad) last(v value) value {
	return g.backprop.node("Sum", Attrs{"T": g.t, "keep_dims": boolOf(true)}, v, g.int(-1, true))
}

// realOf adds a node of the real type that corresponds to the complex type of a node such as Real.
func (g *grad) realOf(op string, v value) value {
	return g.backprop.node(op, Attrs{"T": g.node.Attrs["Tout"]}, v)
}

func (g *grad) complex(re, im value) value {
	return g.backprop.node("Complex", Attrs{"T": g.node.Attrs["Tout"], "Tout": g.t}, re, im)
}

// binaryGradients holds the gradients of ops that broadcast two inputs, before the sum over broadcast axes.
var binaryGradients = map[string]func(g *grad, x, y, dz value) (dx, dy value){
	"Add":   func(g *grad, x, y, dz value) (value, value) { return dz, dz },
	"AddV2": func(g *grad, x, y, dz value) (value, value) { return dz, dz },
	"Sub":   func(g *grad, x, y, dz value) (value, value) { return dz, g.op("Neg", dz) },
	"Mul": func(g *grad, x, y, dz value) (value, value) {
		if tensor.FromProto(g.t.GetType()).IsComplex() {
			x, y = g.op("Conj", x), g.op("Conj", y)
		}
		return g.op("Mul", dz, y), g.op("Mul", x, dz)
	},
	"MulNoNan": func(g *grad, x, y, dz value) (value, value) { return g.op("Mul", dz, y), g.op("Mul", x, dz) },
	"Div":      func(g *grad, x, y, dz value) (value, value) { return g.quotient("Div", x, y, dz) },
	"RealDiv":  func(g *grad, x, y, dz value) (value, value) { return g.quotient("RealDiv", x, y, dz) },
	"DivNoNan": func(g *grad, x, y, dz value) (value, value) { return g.quotient("DivNoNan", x, y, dz) },
	"Pow":      powerGradient,
	"Xlogy":    func(g *grad, x, y, dz value) (value, value) { return g.whereNotZero("Xlogy", x, y, y, dz) },
	"Xdivy": func(g *grad, x, y, dz value) (value, value) {
		return g.op("Mul", g.op("Xdivy", g.notZero(x), y), dz), g.op("Mul", g.op("Xdivy", x, g.op("Neg", g.op("Square", y))), dz)
	},
	"Xlog1py": func(g *grad, x, y, dz value) (value, value) {
		return g.whereNotZero("Xlog1py", x, y, g.op("AddV2", y, g.number(1)), dz)
	},
	"SquaredDifference": func(g *grad, x, y, dz value) (value, value) {
		dx := g.op("Mul", g.op("Mul", g.number(2), g.op("Sub", x, y)), dz)
		return dx, g.op("Neg", dx)
	},
	"Maximum": func(g *grad, x, y, dz value) (value, value) { return g.chosen("GreaterEqual", x, y, dz) },
	"Minimum": func(g *grad, x, y, dz value) (value, value) { return g.chosen("LessEqual", x, y, dz) },
	"Complex": func(g *grad, x, y, dz value) (value, value) {
		attrs := func() Attrs { return Attrs{"T": g.node.Attrs["Tout"], "Tout": g.t} }
		return g.backprop.node("Real", attrs(), dz), g.backprop.node("Imag", attrs(), dz)
	},
}

// broadcast sums the gradients of two inputs over the axes along which they were broadcast.
func (g *grad) broadcast(f func(g *grad, x, y, dz value) (dx, dy value)) []value {
	dx, dy := f(g, g.x[0], g.x[1], g.dy[0])
	return g.unbroadcast(dx, dy, g.op("Shape", g.x[0]), g.op("Shape", g.x[1]), nil)
}

// unbroadcast sums dx and dy for shapes sx and sy, or for the parts of the shapes that cut selects.
func (g *grad) unbroadcast(dx, dy, sx, sy value, cut func(shape value) value) []value {
	bx, by := sx, sy
	if cut != nil {
		bx, by = cut(sx), cut(sy)
	}
	axes := g.ints("BroadcastGradientArgs", bx, by)
	return []value{g.op("Reshape", g.op("Sum", dx, axes), sx), g.op("Reshape", g.op("Sum", dy, axes.output(1)), sy)}
}

func (g *grad) quotient(div string, x, y, dz value) (value, value) {
	return g.op(div, dz, y), g.op("Mul", dz, g.op(div, g.op("Neg", x), g.op("Square", y)))
}

func powerGradient(g *grad, x, y, dz value) (value, value) {
	dx := g.op("Mul", g.op("Pow", x, g.op("Sub", y, g.number(1))), g.op("Mul", dz, y))
	defined := "Greater"
	if tensor.FromProto(g.t.GetType()).IsComplex() {
		defined = "NotEqual"
	}
	log := g.op("Select", g.op(defined, x, g.op("ZerosLike", x)), g.op("Log", x), g.op("ZerosLike", x))
	return dx, g.op("Mul", log, g.op("Mul", dz, g.op("Pow", x, y)))
}

// notZero is 1 where x is not 0.
func (g *grad) notZero(x value) value { return g.mask(g.op("NotEqual", x, g.op("ZerosLike", x))) }

func (g *grad) whereNotZero(op string, x, y, divisor, dz value) (value, value) {
	return g.op("Mul", g.op(op, g.notZero(x), y), dz), g.op("Mul", g.op("Xdivy", x, divisor), dz)
}

func (g *grad) chosen(compare string, x, y, dz value) (value, value) {
	dx := g.op("Mul", dz, g.mask(g.op(compare, x, y)))
	return dx, g.op("Sub", dz, dx)
}

// onlyInt32 rejects indices of another type, as TensorFlow does.
func (g *grad) onlyInt32(attr, what string) error {
	if t, ok := g.node.Attrs[attr]; ok && tensor.FromProto(t.GetType()) != tensor.Int32 {
		return status.Unimplementedf("%s for int64 index are not supported.", what)
	}
	return nil
}
