package all_test

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// operands are the shapes of binary elementwise ops' operands: several blocks with a remainder, scalars, rows, columns, channels, and as
// many axes as cannot be merged.
var operands = [][2]tensor.Shape{
	{{2051}, {2051}}, {{2051}, {}}, {{1}, {2051}}, {{5, 516}, {516}}, {{5, 516}, {5, 1}}, {{7, 3}, {3}}, {{2, 8, 12}, {8, 1}},
	{{2, 1, 3, 1, 2, 1}, {1, 3, 1, 2, 1, 4}}, {{0, 3}, {3}}, {{2, 1, 2, 1, 2, 1, 2, 1, 2, 1}, {1, 2, 1, 2, 1, 2, 1, 2, 1, 2}},
}

// TestElementwiseLikeCPU runs each elementwise GPU row with numbers of all kinds.
func TestElementwiseLikeCPU(t *testing.T) {
	var cases []like
	for _, op := range kernels.Ops() {
		def, err := graph.LookupOp(op)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range kernels.Rows(op, "GPU") {
			if slices.Contains(row.HostInputs, "*") || !elementwiseOps[op] {
				continue
			}
			attrs := kt.Attrs{}
			for name, types := range row.Types {
				attrs[name] = types[0]
			}
			d, ok := attrs["T"].(tensor.DType)
			if !ok {
				d = tensor.Bool
			}
			c := like{op: op, attrs: attrs, tolerance: toleranceOf(d)}
			add := func(inputs ...*tensor.Tensor) {
				c.inputs = inputs
				cases = append(cases, c)
			}
			switch sameShape := strings.HasSuffix(op, "Grad"); {
			case len(def.InputArg) == 1:
				add(numbersFor(op, 0, d, 2051))
				add(numbersFor(op, 0, d, 0, 3))
			case sameShape:
				add(numbersFor(op, 0, d, 2051), numbersFor(op, 1, d, 2051))
			default:
				for _, s := range operands {
					add(numbersFor(op, 0, d, s[0]...), numbersFor(op, 1, d, s[1]...))
					if s[0].Elements() < 100 && d != tensor.Float32 {
						continue
					}
					add(numbersFor(op, 0, d, s[1]...), numbersFor(op, 1, d, s[0]...))
				}
			}
		}
	}
	if len(cases) < 1000 {
		t.Errorf("only %d cases", len(cases))
	}
	likeCPU(t, cases...)
}

var elementwiseOps = func() map[string]bool {
	ops := map[string]bool{}
	for op := range strings.FieldsSeq(`Neg Abs Square Sign Reciprocal Inv Invert Sqrt Rsqrt Floor Ceil Rint Round Exp Expm1 Log Log1p Sin Cos Tan
		Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Sigmoid Erf Erfc Erfinv Lgamma Digamma Relu Relu6 Elu Selu Softplus Softsign IsNan IsInf
		IsFinite ReluGrad Relu6Grad EluGrad SeluGrad SoftplusGrad SoftsignGrad TanhGrad SigmoidGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad
		LeakyRelu LeakyReluGrad Add AddV2 Sub Mul RealDiv Div Maximum Minimum SquaredDifference TruncateDiv FloorDiv Mod TruncateMod FloorMod
		MulNoNan DivNoNan Xdivy Xlogy Xlog1py Pow Atan2 NextAfter Less LessEqual Greater GreaterEqual Equal NotEqual BitwiseAnd BitwiseOr
		BitwiseXor LeftShift RightShift LogicalNot LogicalAnd LogicalOr ZerosLike OnesLike`) {
		ops[op] = true
	}
	return ops
}()

// toleranceOf returns the permitted difference of a type's functions.
func toleranceOf(d tensor.DType) float64 {
	return map[tensor.DType]float64{tensor.Float32: 4e-6, tensor.Float64: 1e-9, tensor.Float16: 2e-3, tensor.BFloat16: 1.6e-2}[d]
}

// numbersFor returns random numbers for an input of an op, including special values unless the result would depend on how functions round.
func numbersFor(op string, input int, d tensor.DType, dims ...int64) *tensor.Tensor {
	t := zeros(d, dims...)
	odd := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1, -1, 0.5, 6}
	wild := !slices.Contains([]string{"Sin", "Cos", "Tan", "Lgamma", "Digamma", "Mod", "TruncateMod", "FloorMod", "FloorDiv", "Pow", "Maximum", "Minimum", "NextAfter",
		"ReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad", "Atan2"}, op)
	for i := range t.Len() {
		f := rng.Float64()*8 - 4
		if op == "Pow" {
			f = math.Abs(f)
		}
		if wild && rng.IntN(16) == 0 {
			f = odd[rng.IntN(len(odd))]
		}
		n := rng.Int64() >> rng.IntN(64)
		if input == 1 && strings.Contains("Div TruncateDiv FloorDiv Mod TruncateMod FloorMod Pow LeftShift RightShift", op) {
			if n = int64(rng.IntN(9) - 3); n <= 0 && (n == 0 || op == "Pow" || strings.HasPrefix(d.String(), "uint")) {
				n = 5
			}
		}
		setNumber(t, i, f, n)
	}
	return t
}

func setNumber(t *tensor.Tensor, i int, f float64, n int64) {
	switch t.DType() {
	case tensor.Float32:
		tensor.Of[float32](t)[i] = float32(f)
	case tensor.Float64:
		tensor.Of[float64](t)[i] = f
	case tensor.BFloat16:
		tensor.Of[uint16](t)[i] = uint16(math.Float32bits(float32(f)) >> 16)
	case tensor.Float16:
		switch {
		case f != f:
			tensor.Of[uint16](t)[i] = 0x7e00
		case math.IsInf(f, 0):
			tensor.Of[uint16](t)[i] = uint16(math.Float64bits(f)>>48&0x8000) | 0x7c00
		default:
			tensor.Of[uint16](t)[i] = halfBits(math.Round(f*4) / 4)
		}
	case tensor.Bool:
		tensor.Of[bool](t)[i] = n&1 != 0
	case tensor.Complex64:
		tensor.Of[complex64](t)[i] = complex(float32(f), float32(-f))
	case tensor.Complex128:
		tensor.Of[complex128](t)[i] = complex(f, -f)
	default:
		for j := range t.DType().Size() {
			t.Data()[i*t.DType().Size()+j] = byte(n >> (8 * j))
		}
	}
}

// TestCastLikeCPU casts each type to each other, including numbers that do not fit, truncated and rounded.
func TestCastLikeCPU(t *testing.T) {
	var cases []like
	for _, row := range kernels.Rows("Cast", "GPU") {
		from, to := row.Types["SrcT"][0], row.Types["DstT"][0]
		in := numbersFor("", 0, from, 2051)
		for i, f := range []float64{3e9, -3e9, 1e19, 1.7e19, 3e38, 255.5, -0.75, 65519, 65520, 4.1e-8, 127.5, 32768, 9.3e18, 2147483647, -2147483648} {
			if from != tensor.Float16 {
				setNumber(in, 3*i, f, int64(i)-4)
			}
		}
		switch last := len(in.Data()) - in.DType().Size(); from { // numbers that are true by what they must not be judged by, and NaNs without their low bits
		case tensor.Complex64:
			tensor.Of[complex64](in)[0] = 1i
		case tensor.Complex128:
			tensor.Of[complex128](in)[0] = 1i
		case tensor.Float32:
			binary.LittleEndian.PutUint32(in.Data()[last:], 0x7f800001)
		case tensor.Float64:
			binary.LittleEndian.PutUint64(in.Data()[last:], 0x7ff<<52|1)
		case tensor.BFloat16:
			binary.LittleEndian.PutUint16(in.Data()[last:], 0x7f81)
		case tensor.Float16:
			binary.LittleEndian.PutUint16(in.Data()[last:], 0x7c01)
		}
		for _, truncate := range []bool{false, true} {
			cases = append(cases, like{op: "Cast", attrs: kt.Attrs{"SrcT": from, "DstT": to, "Truncate": truncate}, inputs: []*tensor.Tensor{in}})
		}
	}
	if len(cases) != 2*15*15 {
		t.Errorf("%d casts", len(cases))
	}
	likeCPU(t, cases...)
}

// TestPicksLikeCPU covers selection, limits, sums of many, filling and biases.
func TestPicksLikeCPU(t *testing.T) {
	var cases []like
	add := func(op string, d tensor.DType, tolerance float64, attrs kt.Attrs, inputs ...*tensor.Tensor) {
		cases = append(cases, like{op: op, attrs: attrs, inputs: inputs, tolerance: tolerance})
	}
	typeOf := func(row *kernels.Def, attr string) tensor.DType { return row.Types[attr][0] }
	own := func(op string) (rows []*kernels.Def) {
		for _, row := range kernels.Rows(op, "GPU") {
			if !slices.Contains(row.HostInputs, "*") {
				rows = append(rows, row)
			}
		}
		return rows
	}
	for _, row := range own("Select") {
		d := typeOf(row, "T")
		attrs := kt.Attrs{"T": d}
		for _, s := range [][2]tensor.Shape{{{1031}, {1031}}, {{}, {5, 7}}, {{5}, {5, 24}}, {{5}, {5, 7}}, {{2, 3}, {2, 3}}} {
			add("Select", d, 0, attrs, numbersFor("", 0, tensor.Bool, s[0]...), numbersFor("", 0, d, s[1]...), numbersFor("", 0, d, s[1]...))
		}
		for _, s := range [][3]tensor.Shape{{{1031}, {1031}, {1031}}, {{1031}, {}, {1031}}, {{3, 1}, {3, 16}, {16}}, {{3, 1, 2}, {5, 1}, {1, 5, 1}}, {{}, {0}, {1}}} {
			add("SelectV2", d, 0, attrs, numbersFor("", 0, tensor.Bool, s[0]...), numbersFor("", 0, d, s[1]...), numbersFor("", 0, d, s[2]...))
		}
	}
	for _, row := range own("ClipByValue") {
		d := typeOf(row, "T")
		scalar, many := tensor.Shape{}, tensor.Shape{1031}
		for _, s := range [][2]tensor.Shape{{scalar, scalar}, {many, scalar}, {scalar, many}, {many, many}} {
			add("ClipByValue", d, 0, kt.Attrs{"T": d}, numbersFor("", 0, d, 1031), numbersFor("Pow", 0, d, s[0]...), numbersFor("Pow", 0, d, s[1]...))
		}
	}
	for _, op := range []string{"AddN", "AccumulateNV2"} {
		for _, row := range own(op) {
			d := typeOf(row, "T")
			for _, n := range []int{1, 2, 8, 19} {
				var terms []*tensor.Tensor
				for range n {
					terms = append(terms, quarters(d, 1031))
				}
				attrs := kt.Attrs{"T": d, "N": n}
				if op == "AccumulateNV2" {
					attrs["shape"] = tensor.Shape{1031}
				}
				add(op, d, toleranceOf(d), attrs, terms...)
			}
		}
	}
	for _, row := range own("Fill") {
		d := typeOf(row, "T")
		add("Fill", d, 0, kt.Attrs{"T": d, "index_type": tensor.Int32}, axes(3, 347), numbersFor("", 0, d))
		add("Fill", d, 0, kt.Attrs{"T": d, "index_type": tensor.Int32}, axes(3, 0), numbersFor("", 0, d))
	}
	for _, row := range own("BiasAdd") {
		d := typeOf(row, "T")
		for _, format := range []string{"NHWC", "NCHW"} {
			for _, s := range []tensor.Shape{{2, 8, 3, 8}, {2, 5, 3, 5}, {515, 4, 4}, {16, 16}} {
				add("BiasAdd", d, toleranceOf(d), kt.Attrs{"T": d, "data_format": format}, quarters(d, s...), quarters(d, s[1]))
			}
		}
		add("BiasAddV1", d, toleranceOf(d), kt.Attrs{"T": d}, quarters(d, 7, 3), quarters(d, 3))
	}
	likeCPU(t, cases...)
}

// TestRandomLikeCPU checks that a GPU draws the same numbers as a CPU.
func TestRandomLikeCPU(t *testing.T) {
	var cases []like
	seed := kt.I64(kt.S(2), 7, -3)
	unsigned := func(v ...uint64) *tensor.Tensor {
		u := zeros(tensor.Uint64, int64(len(v)))
		copy(tensor.Of[uint64](u), v)
		return u
	}
	for _, op := range kernels.Ops() {
		if !strings.Contains(op, "Random") && !strings.Contains(op, "TruncatedNormal") {
			continue
		}
		for _, row := range kernels.Rows(op, "GPU") {
			attrs := kt.Attrs{}
			for name, types := range row.Types {
				attrs[name] = types[0]
			}
			if slices.Contains(row.HostInputs, "*") || len(attrs) == 0 {
				continue
			}
			d, _ := attrs["dtype"].(tensor.DType)
			if tout, ok := attrs["Tout"].(tensor.DType); ok {
				d = tout
			}
			for _, n := range []int32{0, 1, 7, 5003} {
				inputs := []*tensor.Tensor{axes(n)}
				switch {
				case strings.HasSuffix(op, "V2"):
					// The counter's lower half overflows.
					inputs = append(inputs, unsigned(0x123456789abcdef), unsigned(math.MaxUint64-100, 5), int1(1))
				case strings.HasPrefix(op, "Stateless"):
					inputs = append(inputs, seed)
				default:
					attrs["seed"], attrs["seed2"] = 11, 12
				}
				if strings.Contains(op, "UniformInt") {
					lo, hi := zeros(d), zeros(d)
					setNumber(lo, 0, 0, -5)
					setNumber(hi, 0, 0, 1<<30)
					inputs = append(inputs, lo, hi)
				}
				tolerance := 0.0
				if strings.Contains(op, "Normal") {
					tolerance = max(toleranceOf(d)/16, 1e-14)
				}
				cases = append(cases, like{op: op, attrs: attrs, inputs: inputs, tolerance: tolerance})
			}
		}
	}
	if len(cases) < 4*28 {
		t.Errorf("only %d cases", len(cases))
	}
	likeCPU(t, cases...)
}
