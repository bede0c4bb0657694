package all_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/subnormal"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// specialBounds are the permitted relative errors of results; specialBound is the default. In addition, a result may be off by as much as
// it changes when the inputs change by specialMoves units in the last place, since an algorithm rounds intermediate values.
const (
	specialBound = 4e-15
	specialMoves = 8
)

var specialBounds = map[string]float64{"Betainc": 2e-14, "Igammac": 2e-14, "IgammaGradA": 1e-12, "RandomGammaGrad": 1e-12}

// TestSpecialFunctions compares float64 functions with values computed to fifty digits by testdata/special.py, with subnormal numbers and in
// the processor's mode in which servers compute.
func TestSpecialFunctions(t *testing.T) {
	kt.CPUOnly(t) // these are the CPU's functions; cards have their own, which other tests compare with them
	t.Run("kept", func(t *testing.T) { testSpecialFunctions(t) })
	t.Run("flushed", func(t *testing.T) {
		scope := subnormal.Flush()
		if !scope.Begun() {
			t.Skip("the processor has no such mode")
		}
		defer scope.End()
		testSpecialFunctions(t)
	})
}

func testSpecialFunctions(t *testing.T) {
	kt.CPUOnly(t)
	flushing := subnormal.Flushing()
	f, err := os.Open("testdata/special.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	worst, cases := map[string]float64{}, map[string]int{}
	d := kt.NewDevice(t)
	for lines := bufio.NewScanner(r); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			break
		}
		fields := strings.Fields(lines.Text())
		op := fields[0]
		var inputs []any
		skipped := false
		for in := range strings.SplitSeq(fields[1], ",") {
			v := number64(t, in)
			skipped = skipped || flushing && isSubnormal(v)
			inputs = append(inputs, kt.F64(nil, v))
		}
		want, moves := number64(t, fields[2]), number64(t, fields[3])
		if skipped || flushing && isSubnormal(want) {
			continue // TestSubnormalArguments has these
		}
		out := d.Run(t, kt.Op{Type: op, Outputs: 1}, inputs...)[0].Tensor
		got := tensor.Of[float64](out)[0]
		out.Release()
		cases[op]++
		bound := specialBounds[op]
		if bound == 0 {
			bound = specialBound
		}
		// Subnormal numbers have fewer digits.
		allowed := bound*math.Abs(want) + specialMoves*moves + 0x1p-1070
		if got == want || math.Abs(got-want) <= allowed {
			continue
		}
		off := math.Abs(got-want) / (math.Abs(want) + specialMoves*moves/bound + 0x1p-1070)
		if worst[op] = max(worst[op], off); math.IsNaN(off) || off > bound {
			t.Errorf("%s(%s) is %v, not %v: off by %.2g, beside %.2g", op, fields[1], got, want, math.Abs(got-want), allowed)
		}
	}
	for op, n := range cases {
		if n < 20 {
			t.Errorf("only %d results of %s were compared", n, op)
		}
	}
	for op, off := range worst {
		t.Log(fmt.Sprint(op, " is off by ", off))
	}
}

// isSubnormal looks at the bits, since comparisons depend on the mode.
func isSubnormal(v float64) bool {
	bits := math.Float64bits(v) &^ (1 << 63)
	return bits != 0 && bits < 1<<52
}

func number64(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
