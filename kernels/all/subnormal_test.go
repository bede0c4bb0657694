package all_test

import (
	"math"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/subnormal"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// These are the functions of one and of two numbers. TestFlushedArguments leaves out those that pass subnormal numbers on.
const (
	unaryFunctions = `Square Sign Reciprocal Inv Sqrt Rsqrt Exp Log Expm1 Log1p Sin Cos Tan Asin Acos Atan Cosh Tanh Asinh Acosh Atanh Sigmoid Erf Erfc Erfinv
		Ndtri Lgamma Digamma Floor Ceil Rint Round BesselI0 BesselI1 BesselI0e BesselI1e BesselK0 BesselK1 BesselK0e BesselK1e BesselJ0 BesselJ1 BesselY0
		BesselY1 Dawsn FresnelSin FresnelCos Spence Expint Relu Relu6 Elu Selu Softplus Softsign`
	binaryFunctions = `AddV2 Sub Mul RealDiv FloorDiv TruncateDiv Mod TruncateMod FloorMod MulNoNan DivNoNan Xdivy Xlogy Xlog1py Atan2 Pow SquaredDifference
		Zeta Polygamma Igamma Igammac IgammaGradA RandomGammaGrad`
	complexFunctions = `Square Sign Reciprocal Sqrt Rsqrt Exp Log Expm1 Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Sigmoid`
)

// TestFlushedArguments checks that, where the processor takes subnormal numbers for zeros, functions of them return what they return for
// zeros, whether they compare, compute, or look at the bits.
func TestFlushedArguments(t *testing.T) {
	kt.CPUOnly(t)
	scope := subnormal.Flush()
	if !scope.Begun() {
		t.Skip("the processor has no such mode")
	}
	defer scope.End()
	d := kt.NewDevice(t)
	// bits returns the bits of the result, where all numbers that are none are equal.
	bits := func(op string, args ...float64) uint64 {
		var inputs []any
		for _, v := range args {
			inputs = append(inputs, kt.F64(nil, v))
		}
		out := d.Run(t, kt.Op{Type: op, Outputs: 1}, inputs...)[0].Tensor
		defer out.Release()
		v := tensor.Of[float64](out)[0]
		if v != v {
			v = math.NaN()
		}
		return math.Float64bits(v)
	}
	zero := func(v float64) float64 {
		if isSubnormal(v) {
			return math.Copysign(0, v)
		}
		return v
	}
	least := math.Float64frombits(1)
	small := []float64{least, -least, 1e-310, -1e-310, math.Float64frombits(1<<52 - 1)}
	for op := range strings.FieldsSeq(unaryFunctions) {
		for _, x := range small {
			if got, want := bits(op, x), bits(op, zero(x)); got != want {
				t.Errorf("%s(%v) is %v, not %v", op, x, math.Float64frombits(got), math.Float64frombits(want))
			}
		}
	}
	for op := range strings.FieldsSeq(binaryFunctions) {
		for _, x := range append(small, 0, 1.5, -1.5) {
			for _, y := range append(small, 0, 1.5, 2) {
				if got, want := bits(op, x, y), bits(op, zero(x), zero(y)); got != want {
					t.Errorf("%s(%v, %v) is %v, not %v", op, x, y, math.Float64frombits(got), math.Float64frombits(want))
				}
			}
		}
	}
	complexBits := func(op string, x complex128) [2]uint64 {
		out := d.Run(t, kt.Op{Type: op, Outputs: 1}, kt.Of(tensor.Complex128, nil, x))[0].Tensor
		defer out.Release()
		v := tensor.Of[complex128](out)[0]
		return [2]uint64{math.Float64bits(real(v)), math.Float64bits(imag(v))}
	}
	for op := range strings.FieldsSeq(complexFunctions) {
		for _, x := range small {
			for _, y := range append(small, 0, 1.5) {
				if got, want := complexBits(op, complex(x, y)), complexBits(op, complex(zero(x), zero(y))); got != want {
					t.Errorf("%s(%v) is %v, not %v", op, complex(x, y), got, want)
				}
			}
		}
	}
}

// TestKeptArguments checks functions that see subnormal numbers in either mode of the processor, like those of C.
func TestKeptArguments(t *testing.T) {
	kt.CPUOnly(t)
	d := kt.NewDevice(t)
	least, most := math.Float64frombits(1), math.Float64frombits(1<<52-1)
	check := func(mode string) {
		for _, c := range []struct {
			op   string
			args []float64
			want float64
		}{
			{"Neg", []float64{least}, -least}, {"Abs", []float64{-most}, most}, {"Sinh", []float64{-least}, -least}, {"Sinh", []float64{most}, most},
			{"NextAfter", []float64{0, 1}, least}, {"NextAfter", []float64{math.Copysign(0, -1), 1}, least}, {"NextAfter", []float64{0, -1}, -least}, {"NextAfter", []float64{least, 1}, 2 * 0x1p-1074},
			{"NextAfter", []float64{least, -least}, 0}, {"NextAfter", []float64{-least, 1}, math.Copysign(0, -1)}, {"NextAfter", []float64{-most, -1}, -0x1p-1022},
			{"NextAfter", []float64{0x1p-1022, 0}, most}, {"NextAfter", []float64{least, least}, least}, {"NextAfter", []float64{0, math.Copysign(0, -1)}, math.Copysign(0, -1)},
			{"NextAfter", []float64{math.Inf(1), 0}, math.MaxFloat64}, {"NextAfter", []float64{-math.MaxFloat64, math.Inf(-1)}, math.Inf(-1)}, {"NextAfter", []float64{-1, 0}, -1 + 0x1p-53},
		} {
			var inputs []any
			for _, v := range c.args {
				inputs = append(inputs, kt.F64(nil, v))
			}
			out := d.Run(t, kt.Op{Type: c.op, Outputs: 1}, inputs...)[0].Tensor
			if got := tensor.Of[float64](out)[0]; math.Float64bits(got) != math.Float64bits(c.want) {
				t.Errorf("%s: %s(%v) is %v, not %v", mode, c.op, c.args, got, c.want)
			}
			out.Release()
		}
	}
	check("kept")
	scope := subnormal.Flush()
	defer scope.End()
	if scope.Begun() {
		check("flushed")
	}
}
