package all_test

import (
	"math"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// Differences from TensorFlow at the edges of types and shapes, found by e2e/differential. The values are TensorFlow's.

var (
	nan, inf = math.NaN(), math.Inf(1)
	nan32    = float32(nan)
	inf32    = float32(inf)
)

func TestSpecialFunctionsAtTheEdges(t *testing.T) {
	one := func(op string, want, x float64) kt.Case {
		return kt.Case{Op: op, Inputs: []any{kt.F64(kt.S(1), x)}, Want: []*tensor.Tensor{kt.F64(kt.S(1), want)}, Tolerance: 1e-13}
	}
	two := func(op string, want, a, b float64) kt.Case {
		return kt.Case{Op: op, Inputs: []any{kt.F64(kt.S(1), a), kt.F64(kt.S(1), b)}, Want: []*tensor.Tensor{kt.F64(kt.S(1), want)}, Tolerance: 1e-13}
	}
	kt.Check(t,
		one("BesselK0e", 0, inf), one("BesselK1", inf, -3), one("BesselK1e", inf, 0), one("BesselY0", -inf, -1), one("BesselY1", -inf, -1),
		one("Expint", nan, -1), one("Ndtri", -12.949952697975558, 1.1754944e-38), one("Ndtri", -37.0470962993612, 1e-300), one("Ndtri", nan, -1e-300),
		one("Digamma", 1e30, -1e-30),
		two("Zeta", inf, 2, -1), two("Zeta", nan, 3, -1), two("Zeta", inf, 1, nan), two("Zeta", 1, inf, 1), two("Zeta", 0, 1.7e308, 2),
		two("Polygamma", inf, inf, 1), two("Polygamma", nan, 2, -1), two("IgammaGradA", 0, inf, 1),
		// The sum of the shapes overflows, and both halves are alike.
		kt.Case{Op: "Betainc", Inputs: []any{kt.F64(nil, 1e308), kt.F64(nil, 1e308), kt.F64(nil, 0.5)}, Want: []*tensor.Tensor{kt.F64(nil, 0.5)}, Tolerance: 1e-13},
		kt.Case{Name: "an order that is even in its type", Op: "Polygamma", Inputs: []any{kt.F32(kt.S(1), 1e30), kt.F32(kt.S(1), -inf32)}, Want: []*tensor.Tensor{kt.F32(kt.S(1), inf32)}},
	)
	// These are relative: kt's tolerance is absolute for values below 1.
	for op, want := range map[string]float64{"BesselI1e": 2.9754474593159003e-155, "BesselK1e": 9.3476e-155} {
		got := kt.NewDevice(t).Run(t, kt.Op{Type: op, Outputs: 1}, kt.F64(kt.S(1), 1.7976931348623157e308))[0].Tensor
		if v := tensor.Of[float64](got)[0]; math.Abs(v/want-1) > 1e-4 {
			t.Errorf("%s of the greatest number is %v, not %v", op, v, want)
		}
		got.Release()
	}
}

func TestComplexInverseFunctions(t *testing.T) {
	c := func(op string, x, want complex128) kt.Case {
		return kt.Case{Op: op, Inputs: []any{kt.Of(tensor.Complex128, kt.S(1), x)}, Want: []*tensor.Tensor{kt.Of(tensor.Complex128, kt.S(1), want)}, Tolerance: 4e-15}
	}
	minus := math.Copysign(0, -1)
	kt.Check(t,
		c("Asin", complex(-3, 0), complex(-1.5707963267948966, 1.762747174039086)), c("Asin", complex(-3, minus), complex(-1.5707963267948966, -1.762747174039086)),
		c("Acos", complex(300, -200), complex(0.5880043786994354, 6.5807913056377405)), c("Acosh", complex(0.5, minus), complex(0, -1.0471975511965976)),
		c("Acosh", complex(300, -200), complex(6.5807913056377405, -0.5880043786994354)), c("Asinh", complex(-1, 235), complex(-6.152737221772574, 1.566540994804184)),
		c("Atan", complex(0, 2), complex(1.5707963267948966, 0.5493061443340549)), c("Atan", complex(minus, 2), complex(-1.5707963267948966, 0.5493061443340549)),
		c("Atanh", complex(3, minus), complex(0.34657359027997264, -1.5707963267948966)), c("Tanh", complex(500, 30), complex(1, 0)),
	)
}

func TestComparisonsAtTheEdges(t *testing.T) {
	f := func(v ...float64) *tensor.Tensor { return kt.F64(kt.S(1, int64(len(v))), v...) }
	out := kt.Attrs{"out_type": tensor.Int32}
	clip := func(name string, want, v, lo, hi float32) kt.Case {
		return kt.Case{Name: name, Op: "ClipByValue", Inputs: []any{kt.F32(nil, v), kt.F32(nil, lo), kt.F32(nil, hi)}, Want: []*tensor.Tensor{kt.F32(nil, want)}}
	}
	c64 := func(v complex64) *tensor.Tensor { return kt.Of(tensor.Complex64, nil, v) }
	kt.Check(t,
		kt.Case{Op: "LowerBound", Attrs: out, Inputs: []any{f(-2.7), f(nan)}, Want: []*tensor.Tensor{kt.I32(kt.S(1, 1), 0)}},
		kt.Case{Op: "UpperBound", Attrs: out, Inputs: []any{f(-2.7), f(nan)}, Want: []*tensor.Tensor{kt.I32(kt.S(1, 1), 1)}},
		kt.Case{Op: "LowerBound", Attrs: out, Inputs: []any{f(nan, nan), f(1)}, Want: []*tensor.Tensor{kt.I32(kt.S(1, 1), 0)}},
		clip("crossed bounds", 2, 0, 2, 1), clip("a bound that is NaN", 5, 5, 2, nan32),
		kt.Case{Name: "a complex box", Op: "ClipByValue", Inputs: []any{c64(1 + 5i), c64(2), c64(3 + 3i)}, Want: []*tensor.Tensor{c64(2 + 3i)}},
		kt.Case{Op: "ReluGrad", Inputs: []any{f(nan, inf, 1), f(0, -1, 1)}, Want: []*tensor.Tensor{f(nan, nan, 1)}},
		kt.Case{Op: "Relu6Grad", Inputs: []any{f(nan, inf, 1), f(7, -1, 1)}, Want: []*tensor.Tensor{f(nan, nan, 1)}},
	)
}

// TestNoTwoNaNsAreEqual checks the ops that compare elements by their keys: each NaN is a value of its own.
func TestNoTwoNaNsAreEqual(t *testing.T) {
	index := kt.Attrs{"out_idx": tensor.Int32}
	i32 := func(v ...int32) *tensor.Tensor { return kt.I32(kt.S(int64(len(v))), v...) }
	floats := func(dtype tensor.DType, one, nan uint16) []kt.Case {
		v := func(v ...uint16) *tensor.Tensor { return kt.Of(dtype, kt.S(int64(len(v))), v...) }
		return []kt.Case{
			{Name: dtype.String(), Op: "Unique", Attrs: index, Inputs: []any{v(nan, one, nan, one)}, Want: []*tensor.Tensor{v(nan, one, nan), i32(0, 1, 2, 1)}},
			{Name: dtype.String(), Op: "ListDiff", Attrs: index, Inputs: []any{v(nan, one, nan), v(one, nan)}, Want: []*tensor.Tensor{v(nan, nan), i32(0, 2)}},
		}
	}
	rows := func(v ...float32) *tensor.Tensor { return kt.F32(kt.S(int64(len(v)/2), 2), v...) }
	f64 := func(v ...float64) *tensor.Tensor { return kt.F64(kt.S(int64(len(v))), v...) }
	c64 := func(v ...complex64) *tensor.Tensor { return kt.Of(tensor.Complex64, kt.S(int64(len(v))), v...) }
	cases := append(floats(tensor.Float16, 0x3c00, 0x7e00), floats(tensor.BFloat16, 0x3f80, 0xffc0)...)
	kt.Check(t, append(cases,
		kt.Case{Name: "rows", Op: "UniqueWithCountsV2", Attrs: index, Inputs: []any{rows(1, nan32, 1, 2, 1, nan32, 1, 2), i32(0)},
			Want: []*tensor.Tensor{rows(1, nan32, 1, 2, 1, nan32), i32(0, 1, 2, 1), i32(1, 2, 1)}},
		kt.Case{Name: "double precision", Op: "ListDiff", Attrs: index, Inputs: []any{f64(nan, inf, 1), f64(nan, inf)}, Want: []*tensor.Tensor{f64(nan, 1), i32(0, 2)}},
		kt.Case{Name: "a part of a complex number", Op: "Unique", Attrs: index, Inputs: []any{c64(complex(1, nan32), complex(1, nan32))},
			Want: []*tensor.Tensor{c64(complex(1, nan32), complex(1, nan32)), i32(0, 1)}},
	)...)
}

func TestArithmeticAtTheEdges(t *testing.T) {
	mixed := func(out tensor.DType) kt.Attrs { return kt.Attrs{"Tout": out} }
	i8 := func(shape tensor.Shape, v ...int8) *tensor.Tensor { return kt.Of(tensor.Int8, shape, v...) }
	kt.Check(t,
		kt.Case{Op: "TruncateDiv", Inputs: []any{kt.F32(kt.S(3), 7, -7, inf32), kt.F32(nil, 2)}, Want: []*tensor.Tensor{kt.F32(kt.S(3), 3, -3, inf32)}},
		kt.Case{Name: "bytes", Op: "BatchMatMulV3", Attrs: mixed(tensor.Int32), Inputs: []any{i8(kt.S(1, 2), 1, -2), kt.U8(kt.S(2, 1), 3, 200)}, Want: []*tensor.Tensor{kt.I32(kt.S(1, 1), -397)}},
		kt.Case{Name: "bytes and halves", Op: "BatchMatMulV3", Attrs: mixed(tensor.BFloat16),
			Inputs: []any{i8(kt.S(1, 2), 1, -2), kt.Of[uint16](tensor.BFloat16, kt.S(2, 1), 0x4040, 0x4348)}, Want: []*tensor.Tensor{kt.Of[uint16](tensor.BFloat16, kt.S(1, 1), 0xc3c6)}},
		kt.Case{Name: "sums that fit", Op: "Mean", Inputs: []any{i8(kt.S(4), 100, 100, 100, 97), kt.I32(nil, 0)}, Want: []*tensor.Tensor{i8(nil, 99)}},
		kt.Case{Name: "of complex numbers", Op: "SegmentMean", Inputs: []any{kt.Of[complex64](tensor.Complex64, kt.S(2), 1+2i, 3), kt.I32(kt.S(2), 0, 0)}, Want: []*tensor.Tensor{kt.Of[complex64](tensor.Complex64, kt.S(1), 2+1i)}},
		kt.Case{Name: "no data", Op: "UnsortedSegmentMin", Inputs: []any{i8(kt.S(0, 2)), kt.I32(nil, 0), kt.I32(nil, 0)}, Want: []*tensor.Tensor{i8(kt.S(0, 0, 2))}},
		kt.Case{Name: "short ids", Op: "UnsortedSegmentSum", Inputs: []any{kt.F32(kt.S(2), 1, 2), kt.Of[int16](tensor.Int16, kt.S(2), 1, 1), kt.I32(nil, 2)}, Want: []*tensor.Tensor{kt.F32(kt.S(2), 0, 3)}},
		kt.Case{Name: "a digit for a letter", Op: "Einsum", Attrs: kt.Attrs{"equation": "a1,1->a"}, Inputs: []any{kt.F32(kt.S(2, 2), 1, 2, 3, 4), kt.F32(kt.S(2), 1, 10)},
			Want: []*tensor.Tensor{kt.F32(kt.S(2), 21, 43)}},
		kt.Case{Name: "a length in half precision", Op: "Range", Inputs: []any{kt.Of[uint16](tensor.Float16, nil, 0), kt.Of[uint16](tensor.Float16, nil, 0x4000), kt.Of[uint16](tensor.Float16, nil, 0x3266)},
			Want: []*tensor.Tensor{kt.Of[uint16](tensor.Float16, kt.S(10), 0, 0x3266, 0x3666, 0x38cc, 0x3a66, 0x3c00, 0x3ccc, 0x3d99, 0x3e66, 0x3f33)}},
		kt.Case{Name: "a step that is NaN", Op: "Range", Inputs: []any{kt.F32(nil, 0), kt.F32(nil, 1), kt.F32(nil, nan32)}, Want: []*tensor.Tensor{nil}, Code: status.InvalidArgument, Err: "Requires start >= limit"},
	)
}

func TestShapesAtTheEdges(t *testing.T) {
	kt.Check(t,
		kt.Case{Name: "nothing to gather", Op: "GatherV2", Inputs: []any{kt.F32(kt.S(0, 2, 3)), kt.I32(kt.S(1), 3), kt.I32(nil, 2)}, Want: []*tensor.Tensor{kt.F32(kt.S(0, 2, 1))}},
		kt.Case{Name: "a scalar", Op: "DiagPart", Inputs: []any{kt.F32(nil, 7)}, Want: []*tensor.Tensor{kt.F32(nil, 7)}},
		kt.Case{Name: "strings", Op: "SpaceToDepth", Attrs: kt.Attrs{"block_size": 2}, Inputs: []any{kt.Str(kt.S(1, 2, 2, 1), "a", "b", "c", "d")}, Want: []*tensor.Tensor{kt.Str(kt.S(1, 1, 1, 4), "a", "b", "c", "d")}},
		kt.Case{Name: "no such group", Op: "StaticRegexReplace", Attrs: kt.Attrs{"pattern": "a(.)", "rewrite": `\2`}, Inputs: []any{kt.Str(nil, "ab")}, Want: []*tensor.Tensor{kt.Str(nil, "ab")}},
		kt.Case{Name: "a group", Op: "StaticRegexReplace", Attrs: kt.Attrs{"pattern": "a(.)", "rewrite": `\1`}, Inputs: []any{kt.Str(nil, "ab")}, Want: []*tensor.Tensor{kt.Str(nil, "b")}},
		kt.Case{Name: "Eig's type", Op: "Eig", Attrs: kt.Attrs{"Tout": tensor.Complex128}, Inputs: []any{kt.F32(kt.S(1, 1), 1)}, Want: []*tensor.Tensor{nil, nil}, Code: status.InvalidArgument, Err: "Invalid output dtype 18 vs 8"},
		kt.Case{Name: "no bands", Op: "BandedTriangularSolve", Inputs: []any{kt.F32(kt.S(0, 3, 3)), kt.F32(kt.S(0, 3, 1))}, Want: []*tensor.Tensor{nil}, Code: status.InvalidArgument, Err: "In[0] must not be an empty tensor"},
	)
}

// All elements equal to MaxPool3D's output get the gradient; the gradient's gradient is that of the first.
func TestTiesOfPoolsOverVolumes(t *testing.T) {
	attrs := kt.Attrs{"ksize": []int64{1, 1, 1, 2, 1}, "strides": []int64{1, 1, 1, 2, 1}, "padding": "VALID"}
	kt.Check(t,
		kt.Case{Op: "MaxPool3DGrad", Attrs: attrs, Inputs: []any{kt.F32(kt.S(1, 1, 1, 2, 1), 3, 3), kt.F32(kt.S(1, 1, 1, 1, 1), 3), kt.F32(kt.S(1, 1, 1, 1, 1), 5)},
			Want: []*tensor.Tensor{kt.F32(kt.S(1, 1, 1, 2, 1), 5, 5)}},
		kt.Case{Op: "MaxPool3DGradGrad", Attrs: attrs, Inputs: []any{kt.F32(kt.S(1, 1, 1, 2, 1), 3, 3), kt.F32(kt.S(1, 1, 1, 1, 1), 3), kt.F32(kt.S(1, 1, 1, 2, 1), 5, 6)},
			Want: []*tensor.Tensor{kt.F32(kt.S(1, 1, 1, 1, 1), 5)}},
		kt.Case{Name: "nothing is as great", Op: "MaxPool3DGradGrad", Attrs: attrs, Inputs: []any{kt.F32(kt.S(1, 1, 1, 2, 1), 3, 3), kt.F32(kt.S(1, 1, 1, 1, 1), 4), kt.F32(kt.S(1, 1, 1, 2, 1), 5, 6)},
			Want: []*tensor.Tensor{kt.F32(kt.S(1, 1, 1, 1, 1), 0)}},
	)
}

// 8-bit floats round to even, and overflow to infinity or, if the type has none, to NaN.
func TestCastsOfSmallTypes(t *testing.T) {
	bytes := func(d tensor.DType, v ...uint8) *tensor.Tensor { return kt.Of(d, kt.S(int64(len(v))), v...) }
	f := func(v ...float64) *tensor.Tensor { return kt.F64(kt.S(int64(len(v))), v...) }
	to := func(d tensor.DType) kt.Attrs { return kt.Attrs{"DstT": d} }
	kt.Check(t,
		kt.Case{Name: "to e5m2", Op: "Cast", Attrs: to(tensor.Float8E5M2), Inputs: []any{f(1, 1.125, 1.375, 57344, 61439, 61440, -inf, 1e-9)},
			Want: []*tensor.Tensor{bytes(tensor.Float8E5M2, 0x3c, 0x3c, 0x3e, 0x7b, 0x7b, 0x7c, 0xfc, 0)}},
		kt.Case{Name: "to e4m3fn", Op: "Cast", Attrs: to(tensor.Float8E4M3FN), Inputs: []any{f(1, 1.0625, 1.1875, 448, 464, 465, -inf, 0.001953125)},
			Want: []*tensor.Tensor{bytes(tensor.Float8E4M3FN, 0x38, 0x38, 0x3a, 0x7e, 0x7e, 0x7f, 0xff, 1)}},
		kt.Case{Name: "from e4m3fn", Op: "Cast", Attrs: to(tensor.Float64), Inputs: []any{bytes(tensor.Float8E4M3FN, 0, 1, 0x38, 0x7e, 0xff, 0xb8)}, Want: []*tensor.Tensor{f(0, 0.001953125, 1, 448, nan, -1)}},
		kt.Case{Name: "from e5m2", Op: "Cast", Attrs: to(tensor.Float64), Inputs: []any{bytes(tensor.Float8E5M2, 1, 0x3c, 0x7b, 0x7c, 0x7e)}, Want: []*tensor.Tensor{f(1.52587890625e-05, 1, 57344, inf, nan)}},
		kt.Case{Name: "to int4", Op: "Cast", Attrs: to(tensor.Int4), Inputs: []any{kt.I32(kt.S(3), -1, 7, 8)}, Want: []*tensor.Tensor{bytes(tensor.Int4, 0xf, 7, 8)}},
		kt.Case{Name: "from int4", Op: "Cast", Attrs: to(tensor.Int32), Inputs: []any{bytes(tensor.Int4, 0xf, 7, 8)}, Want: []*tensor.Tensor{kt.I32(kt.S(3), -1, 7, -8)}},
		kt.Case{Name: "of quantized types", Op: "Cast", Attrs: to(tensor.Int64), Inputs: []any{kt.Of[int8](tensor.QInt8, kt.S(2), -1, 7)}, Want: []*tensor.Tensor{kt.I64(kt.S(2), -1, 7)}},
		kt.Case{Name: "that there are not", Op: "Cast", Attrs: to(tensor.Int4), Inputs: []any{f(1)}, Want: []*tensor.Tensor{nil}, Code: status.Unimplemented, Err: "Cast double to int4 is not supported"},
	)
}

func TestTruncatedCasts(t *testing.T) {
	bytes := func(d tensor.DType, v ...uint8) *tensor.Tensor { return kt.Of(d, kt.S(int64(len(v))), v...) }
	halves := func(d tensor.DType, v ...uint16) *tensor.Tensor { return kt.Of(d, kt.S(int64(len(v))), v...) }
	f := func(v ...float64) *tensor.Tensor { return kt.F64(kt.S(int64(len(v))), v...) }
	cut := func(to tensor.DType, in, want *tensor.Tensor) kt.Case {
		return kt.Case{Op: "Cast", Name: in.DType().String() + " to " + to.String(), Attrs: kt.Attrs{"DstT": to, "Truncate": true}, Inputs: []any{in}, Want: []*tensor.Tensor{want}}
	}
	lastNaN := math.Float64frombits(0x7ff<<52 | 1) // without its low bits, it is an infinity
	kt.Check(t,
		cut(tensor.Float8E5M2, f(15, -300, 65519, 65536, lastNaN), bytes(tensor.Float8E5M2, 0x4b, 0xdc, 0x7b, 0x7c, 0x7f)),
		cut(tensor.Float8E5M2, kt.F32(kt.S(1), 15), bytes(tensor.Float8E5M2, 0x4b)),
		cut(tensor.Float8E5M2, halves(tensor.Float16, 0x4b80, 0x00ff, 0x7c01), bytes(tensor.Float8E5M2, 0x4b, 0, 0x7f)),
		cut(tensor.Float8E5M2, halves(tensor.BFloat16, 0x4170, 0xff81), bytes(tensor.Float8E5M2, 0x4b, 0xff)),
		cut(tensor.Float8E5M2, bytes(tensor.Float8E4M3FN, 0x57, 0x7f, 0xff), bytes(tensor.Float8E5M2, 0x4b, 0x7f, 0xff)),
		cut(tensor.Float8E4M3FN, f(127.5, 465, 1.1), bytes(tensor.Float8E4M3FN, 0x6f, 0x7e, 0x38)),
		cut(tensor.Float8E4M3FN, bytes(tensor.Float8E5M2, 0x4b, 0x7c), bytes(tensor.Float8E4M3FN, 0x56, 0x7f)),
		cut(tensor.Float32, f(lastNaN, 1+0x1.8p-23), kt.F32(kt.S(2), nan32, 1+0x1p-23)),
		cut(tensor.Float16, kt.F32(kt.S(2), math.Float32frombits(0x7f800001), 1+0x1.8p-10), halves(tensor.Float16, 0x7e00, 0x3c01)),
	)
}

func TestComparisonsOfConvertedNumbers(t *testing.T) {
	c64 := func(v ...complex64) *tensor.Tensor { return kt.Of(tensor.Complex64, kt.S(int64(len(v))), v...) }
	boundaries := kt.Attrs{"boundaries": []float32{16777216, 16777218, 16777220}}
	kt.Check(t,
		kt.Case{Name: "only the real part is a truth", Op: "Cast", Attrs: kt.Attrs{"DstT": tensor.Bool}, Inputs: []any{c64(0, 1i, 1, complex(nan32, 0))},
			Want: []*tensor.Tensor{kt.Bool(kt.S(4), false, false, true, true)}},
		kt.Case{Name: "in double precision", Op: "Cast", Attrs: kt.Attrs{"DstT": tensor.Bool}, Inputs: []any{kt.Of(tensor.Complex128, kt.S(2), 1i, 1)},
			Want: []*tensor.Tensor{kt.Bool(kt.S(2), false, true)}},
		kt.Case{Name: "integers become floats", Op: "Bucketize", Attrs: boundaries, Inputs: []any{kt.I32(kt.S(3), 16777219, 16777217, 16777216)},
			Want: []*tensor.Tensor{kt.I32(kt.S(3), 3, 1, 1)}},
		kt.Case{Name: "doubles stay", Op: "Bucketize", Attrs: boundaries, Inputs: []any{kt.F64(kt.S(2), 16777219, 16777217)}, Want: []*tensor.Tensor{kt.I32(kt.S(2), 2, 1)}},
	)
}
