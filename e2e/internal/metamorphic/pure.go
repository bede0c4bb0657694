package metamorphic

import "math"

// pure is an op that only computes: how the oracle computes it, and how it is drawn.
type pure struct {
	args []Type
	out  Type
	// grow bounds the result's size by those of the arguments; nil if the result is at most as large as the largest of them.
	grow func(sizes []float64) float64
	eval func(num int, a []Value) Value
	draw func(d *drawing, a []string) string
	// shares reports whether the result may share the argument's memory. A value read from a reference is then copied first.
	shares bool
}

// pures are all ops that only compute, by name.
var pures map[string]*pure

func init() {
	unary := func(op string, f func(float32) float32) *pure {
		return &pure{args: []Type{Matrix}, out: Matrix,
			eval: func(_ int, a []Value) Value { return each(a[0], f) },
			draw: func(d *drawing, a []string) string { return d.op(op, Matrix, a...) }}
	}
	// A function of few values, whose results are far from rounding boundaries.
	rounded := func(op string, factor float64, f func(float64) float64) *pure {
		return &pure{args: []Type{Matrix}, out: Matrix, grow: func([]float64) float64 { return factor },
			eval: func(_ int, a []Value) Value {
				return each(a[0], func(x float32) float32 { return float32(math.RoundToEven(factor * f(float64(x)))) })
			},
			draw: func(d *drawing, a []string) string {
				return d.op("Round", Matrix, d.op("Mul", Matrix, d.op(op, Matrix, a[0]), d.constant(scalarOf(float32(factor)))))
			}}
	}
	binary := func(op string, t, second Type, grow func([]float64) float64, f func(x, y float32) float32) *pure {
		return &pure{args: []Type{t, second}, out: t, grow: grow,
			eval: func(_ int, a []Value) Value { return both(a[0], a[1], f) },
			draw: func(d *drawing, a []string) string { return d.op(op, t, a...) }}
	}
	integer := func(op string, f func(x, y int32) int32) *pure {
		return &pure{args: []Type{Int, Int}, out: Int,
			eval: func(_ int, a []Value) Value { return intOf(f(a[0].I, a[1].I)) },
			draw: func(d *drawing, a []string) string { return d.op(op, Int, a...) }}
	}
	reduced := func(op string, grow func([]float64) float64, f func(m []float32) float32) *pure {
		return &pure{args: []Type{Matrix}, out: Scalar, grow: grow,
			eval: func(_ int, a []Value) Value { return scalarOf(f(a[0].F)) },
			draw: func(d *drawing, a []string) string { return d.op(op, Scalar, a[0], d.ints(0, 1)) }}
	}
	source := func(t Type) *pure {
		return &pure{args: nil, out: t, grow: func([]float64) float64 { return 4 },
			eval: func(num int, _ []Value) Value { return plainValue(t, num) },
			draw: func(d *drawing, _ []string) string { return d.source(t) }}
	}
	add := func(x, y float32) float32 { return x + y }
	mul := func(x, y float32) float32 { return x * y }
	pures = map[string]*pure{
		"const":   source(Matrix),
		"sconst":  source(Scalar),
		"iconst":  source(Int),
		"input":   source(Matrix),
		"neg":     unary("Neg", func(x float32) float32 { return -x }),
		"abs":     unary("Abs", func(x float32) float32 { return max(x, -x) }),
		"relu":    unary("Relu", func(x float32) float32 { return max(x, 0) }),
		"tanh":    rounded("Tanh", 4, math.Tanh),
		"sigmoid": rounded("Sigmoid", 8, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }),
		"add":     binary("AddV2", Matrix, Matrix, sum, add),
		"sub":     binary("Sub", Matrix, Matrix, sum, func(x, y float32) float32 { return x - y }),
		"mul":     binary("Mul", Matrix, Matrix, product(1), mul),
		"max":     binary("Maximum", Matrix, Matrix, nil, func(x, y float32) float32 { return max(x, y) }),
		"min":     binary("Minimum", Matrix, Matrix, nil, func(x, y float32) float32 { return min(x, y) }),
		"scale":   binary("Mul", Matrix, Scalar, product(1), mul),
		"shift":   binary("AddV2", Matrix, Scalar, sum, add),
		"sadd":    binary("AddV2", Scalar, Scalar, sum, add),
		"smul":    binary("Mul", Scalar, Scalar, product(1), mul),
		"smax":    binary("Maximum", Scalar, Scalar, nil, func(x, y float32) float32 { return max(x, y) }),
		"plus":    integer("AddV2", func(x, y int32) int32 { return x + y }),
		"times":   integer("Mul", func(x, y int32) int32 { return x * y }),
		"sum":     reduced("Sum", product(Side*Side), total),
		"top":     reduced("Max", nil, func(m []float32) float32 { return fold(m, m[0], func(x, y float32) float32 { return max(x, y) }) }),
		"identity": {args: []Type{Matrix}, out: Matrix, shares: true,
			eval: func(_ int, a []Value) Value { return a[0] },
			draw: func(d *drawing, a []string) string { return d.op("Identity", Matrix, a...) }},
		"reshape": {args: []Type{Matrix}, out: Matrix, shares: true, // through another shape, in the same memory
			eval: func(_ int, a []Value) Value { return a[0] },
			draw: func(d *drawing, a []string) string {
				if d.s.Num&1 == 0 {
					longer := d.node("ExpandDims", attrs{"T": dtype(Matrix), "Tdim": dtype(Int)}, a[0], d.constant(intOf(1)))
					return d.node("Squeeze", attrs{"T": dtype(Matrix)}, longer)
				}
				shape := attrs{"T": dtype(Matrix), "Tshape": dtype(Int)}
				return d.node("Reshape", shape, d.node("Reshape", shape, a[0], d.ints(Side*Side)), d.ints(Side, Side))
			}},
		"mean": {args: []Type{Matrix}, out: Scalar, grow: product(Side * Side),
			eval: func(_ int, a []Value) Value {
				return scalarOf(float32(math.RoundToEven(float64(total(a[0].F)) / (Side * Side))))
			},
			draw: func(d *drawing, a []string) string {
				return d.op("Round", Scalar, d.op("Mean", Scalar, a[0], d.ints(0, 1)))
			}},
		"transpose": {args: []Type{Matrix}, out: Matrix,
			eval: func(_ int, a []Value) Value { return rearranged(a[0], func(i, j int) (int, int) { return j, i }) },
			draw: func(d *drawing, a []string) string {
				return d.node("Transpose", attrs{"T": dtype(Matrix), "Tperm": dtype(Int)}, a[0], d.ints(1, 0))
			}},
		"rotate": {args: []Type{Matrix}, out: Matrix, shares: true,
			eval: func(_ int, a []Value) Value {
				return rearranged(a[0], func(i, j int) (int, int) { return (i + 1) % Side, j })
			},
			draw: func(d *drawing, a []string) string {
				rows := d.node("Split", attrs{"T": dtype(Matrix), "num_split": number(Side)}, d.constant(intOf(0)), a[0])
				return d.node("ConcatV2", attrs{"T": dtype(Matrix), "Tidx": dtype(Int), "N": number(Side)}, rows+":1", rows+":2", rows, d.constant(intOf(0)))
			}},
		"wide": { // crosses devices as a large tensor, and takes a while
			args: []Type{Matrix}, out: Matrix, grow: product(2),
			eval: func(_ int, a []Value) Value { return each(a[0], func(x float32) float32 { return -2 * x }) },
			draw: func(d *drawing, a []string) string {
				wide := d.op("Neg", Matrix, d.node("Tile", attrs{"T": dtype(Matrix), "Tmultiples": dtype(Int)}, a[0], d.ints(64, 64)))
				twice := d.op("AddV2", Matrix, wide, wide)
				return d.node("Slice", attrs{"T": dtype(Matrix), "Index": dtype(Int)}, twice, d.ints(0, 0), d.ints(Side, Side))
			}},
		"matmul": {args: []Type{Matrix, Matrix}, out: Matrix, grow: product(Side),
			eval: func(num int, a []Value) Value { return matmul(a[0], a[1], num&1 != 0, num&2 != 0) },
			draw: func(d *drawing, a []string) string {
				return d.node("MatMul", attrs{"T": dtype(Matrix), "transpose_a": flag(d.s.Num&1 != 0), "transpose_b": flag(d.s.Num&2 != 0)}, a...)
			}},
		"addn": {args: []Type{Matrix, Matrix, Matrix}, out: Matrix, grow: sum,
			eval: func(_ int, a []Value) Value { return both(both(a[0], a[1], add), a[2], add) },
			draw: func(d *drawing, a []string) string {
				return d.node("AddN", attrs{"T": dtype(Matrix), "N": number(3)}, a...)
			}},
		"select": {args: []Type{Matrix, Matrix, Matrix}, out: Matrix,
			eval: func(_ int, a []Value) Value {
				out := make([]float32, Side*Side)
				for i := range out {
					if out[i] = a[1].F[i]; a[0].F[i] < a[1].F[i] {
						out[i] = a[2].F[i]
					}
				}
				return matrixOf(out)
			},
			draw: func(d *drawing, a []string) string {
				return d.op("SelectV2", Matrix, d.op("Less", Matrix, a[0], a[1]), a[2], a[1])
			}},
		"fill": {args: []Type{Scalar}, out: Matrix,
			eval: func(_ int, a []Value) Value { return both(matrixOf(make([]float32, Side*Side)), a[0], add) },
			draw: func(d *drawing, a []string) string {
				return d.node("Fill", attrs{"T": dtype(Matrix), "index_type": dtype(Int)}, d.ints(Side, Side), a[0])
			}},
		"toint": {args: []Type{Scalar}, out: Int,
			eval: func(_ int, a []Value) Value { return intOf(int32(a[0].F[0])) },
			draw: func(d *drawing, a []string) string {
				return d.node("Cast", attrs{"SrcT": dtype(Scalar), "DstT": dtype(Int)}, a...)
			}},
		"tofloat": {args: []Type{Int}, out: Scalar, grow: func([]float64) float64 { return modulus },
			eval: func(_ int, a []Value) Value { return scalarOf(float32(((a[0].I % modulus) + modulus) % modulus)) },
			draw: func(d *drawing, a []string) string {
				return d.node("Cast", attrs{"SrcT": dtype(Int), "DstT": dtype(Scalar)}, d.op("FloorMod", Int, a[0], d.constant(intOf(modulus))))
			}},
	}
}

// modulus bounds numbers that have become large.
const modulus = 17

// squash makes a value small. Unlike a saturating function, it rarely makes different values equal.
func squash(v Value) Value {
	return each(v, func(x float32) float32 {
		m := math.Mod(float64(x), modulus)
		if m < 0 {
			m += modulus
		}
		return float32(m) - modulus/2
	})
}

func sum(sizes []float64) float64 {
	total := 0.0
	for _, s := range sizes {
		total += s
	}
	return total
}

func product(factor float64) func([]float64) float64 {
	return func(sizes []float64) float64 {
		all := factor
		for _, s := range sizes {
			all *= s
		}
		return all
	}
}

func each(v Value, f func(float32) float32) Value {
	out := make([]float32, len(v.F))
	for i, x := range v.F {
		out[i] = f(x)
	}
	return Value{Type: v.Type, F: out}
}

// both computes elementwise; the second value may be a scalar.
func both(a, b Value, f func(x, y float32) float32) Value {
	out := make([]float32, len(a.F))
	for i, x := range a.F {
		out[i] = f(x, b.F[i%len(b.F)])
	}
	return Value{Type: a.Type, F: out}
}

func fold(m []float32, start float32, f func(x, y float32) float32) float32 {
	for _, x := range m {
		start = f(start, x)
	}
	return start
}

func total(m []float32) float32 { return fold(m, 0, func(x, y float32) float32 { return x + y }) }

// rearranged returns a matrix whose element (i, j) is that of v at from(i, j).
func rearranged(v Value, from func(i, j int) (int, int)) Value {
	out := make([]float32, Side*Side)
	for i := range Side {
		for j := range Side {
			r, c := from(i, j)
			out[i*Side+j] = v.F[r*Side+c]
		}
	}
	return matrixOf(out)
}

func matmul(a, b Value, ta, tb bool) Value {
	swap := func(i, j int) (int, int) { return j, i }
	if ta {
		a = rearranged(a, swap)
	}
	if tb {
		b = rearranged(b, swap)
	}
	out := make([]float32, Side*Side)
	for i := range Side {
		for j := range Side {
			for k := range Side {
				out[i*Side+j] += a.F[i*Side+k] * b.F[k*Side+j]
			}
		}
	}
	return matrixOf(out)
}
