package all_test

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/subnormal"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// An oracle for each op that computes each element of its result from one to three numbers: for float64 what TensorFlow 2.21 computed and what
// is true (testdata/true_numbers.gz, made by testdata/true_numbers.py), for the smaller types the kernel of float64.

// bound is a permitted error, in units in the last place, and why it is more than the usual one.
type bound struct {
	ulps float64
	why  string
}

// The usual bounds: float64 is as close to the truth as TensorFlow's worst result of the op, if that is between these.
const (
	leastUlps = 2
	mostUlps  = 5
)

// oracleBounds are the ops of float64 with other bounds.
var oracleBounds = map[string]bound{
	"Digamma":   {100, "next to its zeros, where its terms cancel, as TensorFlow's do"},
	"Igamma":    {300, "powers of 500, whose exponents have lost as many digits; TensorFlow's is off by more"},
	"Igammac":   {300, "powers of 500, whose exponents have lost as many digits; TensorFlow's is off by more"},
	"Ndtri":     {3, "math.Erfinv is off by as much"},
	"Polygamma": {3e8, "next to a zero between two poles, as TensorFlow's"},
	"TanhGrad":  {7, "next to 1, 1-y² has as many digits as y² has lost, as TensorFlow's"},
	"Zeta":      {60, "of negative numbers, whose odd powers nearly cancel those of positive ones, as TensorFlow's do"},
	"Betainc":   {math.Inf(1), elsewhere}, "IgammaGradA": {math.Inf(1), elsewhere}, "RandomGammaGrad": {math.Inf(1), elsewhere},
}

const elsewhere = "special.gz has what is true, and TensorFlow's results are not"

// smallUlps is the usual bound of the smaller types. smallBounds are the ops of float32, float16 and bfloat16 with other ones.
const smallUlps = 2

var smallBounds = map[string]bound{
	"FloorDiv": {math.Inf(1), jumps}, "TruncateDiv": {math.Inf(1), jumps},
	"Polygamma": {math.Inf(1), "an order of 2^31 is even or odd as it is rounded"},
	"TanhGrad":  {math.Inf(1), "next to 1, 1-y² has as many digits as y² has lost"},
}

const jumps = "the quotient, rounded to the type, is on the other side of a whole number"

// apart are ops some of whose results are numbers, infinities or nothing where TensorFlow's are something else, each with the reason.
var apart = map[string]string{
	"BesselI0": overflows, "BesselI1": overflows, "Expint": overflows, "BesselK0": least, "BesselK0e": least, "BesselK1": least, "BesselK1e": least,
	"BesselJ0": ends, "BesselJ1": ends, "BesselY0": ends, "Erf": "TensorFlow's vectors square large numbers", "Erfinv": "TensorFlow's is infinite next to 1, and beyond",
	"BesselY1": ends, "Spence": "TensorFlow's vectors square large numbers", "SigmoidGrad": "TensorFlow's products overflow in between",
	"Igamma": gammas, "Igammac": gammas, "IgammaGradA": gammas, "RandomGammaGrad": gammas,
}

const (
	overflows = "TensorFlow's overflow before the function does"
	least     = "TensorFlow's intermediate results of the least number are none"
	ends      = "the limit at infinity"
	gammas    = "docs/differences.md: Numbers at the ends of their range"
)

// recorded is an op of the table.
type recorded struct {
	op           string
	inputs       [][]float64 // by the op's inputs
	theirs, true []float64
	rest         []float64 // of the truth, in units in the last place; NaN where just TensorFlow's result is known
}

// recordedNumbers reads testdata/true_numbers.gz.
func recordedNumbers(t *testing.T) map[string]recorded {
	t.Helper()
	f, err := os.Open("testdata/true_numbers.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > 1<<20 {
		t.Errorf("the table has %d bytes, %v", info.Size(), err)
	}
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	points, all := map[string][]float64{}, map[string]recorded{}
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if fields[0] == "points" {
			points[fields[1]] = hexNumbers(t, fields[2])
			continue
		}
		rec := recorded{op: fields[1], theirs: hexNumbers(t, fields[3]), true: hexNumbers(t, fields[4])}
		flat := points[fields[2]]
		rec.inputs = make([][]float64, len(flat)/len(rec.theirs))
		for i, v := range flat {
			rec.inputs[i%len(rec.inputs)] = append(rec.inputs[i%len(rec.inputs)], v)
		}
		for i := range rec.theirs {
			lost := math.NaN()
			if text := fields[5][2*i : 2*i+2]; text != "zz" {
				n, err := strconv.ParseUint(text, 16, 8)
				if err != nil {
					t.Fatal(err)
				}
				lost = float64(int8(n)) / 200
			}
			rec.rest = append(rec.rest, lost)
		}
		all[rec.op] = rec
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func hexNumbers(t *testing.T, text string) (list []float64) {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(b) >= 8; b = b[8:] {
		var bits uint64
		for _, c := range b[:8] {
			bits = bits<<8 | uint64(c)
		}
		list = append(list, math.Float64frombits(bits))
	}
	return list
}

// format is the precision and the least exponent of a type of floating-point numbers.
type format struct{ bits, least int }

var formats = map[tensor.DType]format{tensor.Float64: {53, -1022}, tensor.Float32: {24, -126}, tensor.Float16: {11, -14}, tensor.BFloat16: {8, -126}}

// unit returns the unit in the last place of a number.
func (f format) unit(v float64) float64 {
	_, exp := math.Frexp(v)
	return math.Ldexp(1, max(exp-1, f.least)-f.bits+1)
}

// sameKind reports whether two results are both numbers, or the same infinity, or both nothing.
func sameKind(a, b float64) bool {
	return math.IsNaN(a) == math.IsNaN(b) && (!math.IsInf(a, 0) && !math.IsInf(b, 0) || a == b || math.IsNaN(a))
}

func sameNumber(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// computeNumbers runs an op on lists of numbers of a type and returns the results; nil if it does not accept them or returns other than a list of
// numbers or of bools.
func computeNumbers(t *testing.T, op string, dtype tensor.DType, lists [][]float64) []float64 {
	t.Helper()
	var inputs []any
	for _, list := range lists {
		inputs = append(inputs, numbersOf(dtype, kt.S(int64(len(list))), list))
	}
	out, err := kt.NewDevice(t).Try(kt.Op{Type: op}, inputs...)
	if err != nil {
		return nil
	}
	defer func() {
		for _, v := range out {
			v.Release()
		}
	}()
	if len(out) != 1 || out[0].Tensor == nil || !out[0].Tensor.Shape().Equal(kt.S(int64(len(lists[0])))) {
		return nil
	}
	return numbersIn(out[0].Tensor)
}

// numbersIn returns the elements of a tensor; nil if they are no numbers of one part.
func numbersIn(x *tensor.Tensor) (list []float64) {
	list = make([]float64, x.Len())
	for i := range list {
		switch x.DType() {
		case tensor.Float64:
			list[i] = tensor.Of[float64](x)[i]
		case tensor.Float32:
			list[i] = float64(tensor.Of[float32](x)[i])
		case tensor.Float16:
			list[i] = float64(tensor.Of[element.Float16](x)[i].Float())
		case tensor.BFloat16:
			list[i] = float64(tensor.Of[element.BFloat16](x)[i].Float())
		case tensor.Bool:
			if tensor.Of[bool](x)[i] {
				list[i] = 1
			}
		default:
			return nil
		}
	}
	return list
}

// TestNumbersAreTheOracles compares the results of float64 with the table. It fails for a bound that is no longer needed.
func TestNumbersAreTheOracles(t *testing.T) {
	kt.CPUOnly(t) // these are the CPU's functions; cards have their own, which other tests compare with them
	all := recordedNumbers(t)

	if len(all) < 100 {
		t.Fatalf("the table has only %d ops", len(all))
	}
	for _, op := range opsOfNumbers(t) {
		if _, ok := all[op]; !ok {
			t.Errorf("%s has no oracle: add it with testdata/true_numbers.py", op)
		}
	}
	have := kernels.Ops()
	for _, op := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(have, op) {
			all[op].compare(t)
		}
	}
}

// compare compares the results of an op with the table.
func (r recorded) compare(t *testing.T) {
	t.Helper()
	scope := subnormal.Flush() // as TensorFlow's threads do
	got := computeNumbers(t, r.op, tensor.Float64, r.inputs)
	if scope.Begun() {
		scope.End()
	}
	if got == nil {
		t.Errorf("%s does not accept the table's numbers", r.op)
		return
	}
	f := formats[tensor.Float64]
	ours, theirs, at, differs := 0.0, 0.0, -1, ""
	known := slices.ContainsFunc(r.rest, func(lost float64) bool { return !math.IsNaN(lost) })
	for i, v := range got {
		want, lost := r.true[i], r.rest[i]
		if math.Abs(want) < 0x1p-1021 && want != 0 || isSubnormal(v) || r.theirs[i] == 0 && math.Abs(v) < 0x1p-1021 {
			continue // subnormal, or next to it
		}
		if len(r.inputs) > 1 && slices.ContainsFunc(r.row(i), func(v float64) bool { return math.Abs(v) == 0x1p-1022 }) {
			continue // half of it is subnormal, which TensorFlow keeps in some ops
		}
		if r.theirs[i] == -want && want != 0 {
			continue // zero has a sign, which the truth does not know
		}
		if !sameKind(v, r.theirs[i]) {
			differs = fmt.Sprintf("%s%v is %v, and TensorFlow's is %v", r.op, r.row(i), v, r.theirs[i])
			if apart[r.op] == "" {
				t.Error(differs)
			}
			continue
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if math.IsNaN(lost) {
			if known {
				continue
			}
			lost = 0 // beside TensorFlow's
		} else {
			theirs = max(theirs, math.Abs((r.theirs[i]-want)/f.unit(want)-lost))
		}
		if e := math.Abs((v-want)/f.unit(want) - lost); e > ours {
			ours, at = e, i
		}
	}
	if apart[r.op] != "" && differs == "" {
		t.Errorf("%s is as TensorFlow's: the test says %s", r.op, apart[r.op])
	}
	usual := max(leastUlps, min(theirs, mostUlps))
	allowed, listed := oracleBounds[r.op]
	if !listed {
		allowed.ulps = usual
	}
	if ours > allowed.ulps {
		t.Errorf("%s%v is %v, not %v: off by %.4g units in the last place; TensorFlow's is %v, and its worst is off by %.4g", r.op, r.row(at), got[at], r.true[at], ours, r.theirs[at], theirs)
	}
	if listed && (ours <= usual || ours < allowed.ulps/4 && !math.IsInf(allowed.ulps, 1)) {
		t.Errorf("%s is off by %.4g at most, and TensorFlow's by %.4g: its bound of %g is not needed", r.op, ours, theirs, allowed.ulps)
	}
	t.Logf("%s is off by %.3g, TensorFlow by %.3g", r.op, ours, theirs)
}

func (r recorded) row(i int) (row []float64) {
	for _, list := range r.inputs {
		row = append(row, list[i])
	}
	return row
}

// opsOfNumbers returns the ops that compute each number of their result from one number of each input, as far as their declarations and a
// try tell.
func opsOfNumbers(t *testing.T) (ops []string) {
	t.Helper()
	for _, name := range kernels.Ops() {
		def, err := graph.LookupOp(name)
		if err != nil || quiet(name) || strings.HasPrefix(name, "_") || def.IsStateful || len(def.OutputArg) != 1 || len(def.InputArg) == 0 || len(def.InputArg) > 3 {
			continue
		}
		n := numbers{anything: anything{t, rand.New(rand.NewPCG(3, 3)), def}, dtype: tensor.Float64}
		if attr := n.elements(); attr == "" || !n.takes() {
			continue
		}
		// Different numbers at each place tell maxima, sums and orders of lists from functions of their elements.
		var lists, backward [][]float64
		for i := range def.InputArg {
			list := []float64{0.3, 0.1, 0.7, 0.2 + float64(i)/8, 0.6}
			lists = append(lists, list)
			reversed := slices.Clone(list)
			slices.Reverse(reversed)
			backward = append(backward, reversed)
		}
		there, back := computeNumbers(t, name, tensor.Float64, lists), computeNumbers(t, name, tensor.Float64, backward)
		slices.Reverse(back)
		if there == nil || !slices.EqualFunc(there, back, sameNumber) {
			continue
		}
		alone := make([][]float64, len(lists))
		for i, list := range lists {
			alone[i] = list[1:3]
		}
		if slices.EqualFunc(computeNumbers(t, name, tensor.Float64, alone), there[1:3], sameNumber) {
			ops = append(ops, name)
		}
	}
	if len(ops) < 100 {
		t.Errorf("only %d ops of single numbers were found", len(ops))
	}
	return ops
}

// TestSmallNumbersAreThoseOfFloat64 compares the results of the smaller types with those of float64, at the edges of the types, at the places where
// kernels change the way to compute, and at random ones beside these.
func TestSmallNumbersAreThoseOfFloat64(t *testing.T) {
	kt.CPUOnly(t)
	count := 4000
	switch {
	case extent.RaceDetector:
		count = 500
	case extent.Full():
		count = 100_000
	case extent.Check():
		count = 20_000
	}
	defer debug.SetMaxStack(debug.SetMaxStack(numbersStack))
	scope := subnormal.Flush()
	if scope.Begun() {
		defer scope.End()
	}
	points := append(edgeNumbers(), comparedNumbers(t)...)
	needed := map[string]bool{}
	for _, op := range opsOfNumbers(t) {
		def, err := graph.LookupOp(op)
		if err != nil {
			t.Fatal(err)
		}
		for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			n := numbers{anything: anything{t, rand.New(rand.NewPCG(19, uint64(dtype))), def}, dtype: dtype, points: points}
			if n.takes() {
				n.small(op, count, needed)
			}
		}
	}
	for op := range smallBounds {
		if !needed[op] {
			t.Errorf("%s is as close as others: its bound is not needed", op)
		}
	}
}

// small compares the results of an op at count places, and marks the bounds that are needed.
func (n numbers) small(op string, count int, needed map[string]bool) {
	f, lists := formats[n.dtype], make([][]float64, len(n.def.InputArg))
	for r := range count {
		var row []float64
		if len(lists) > 1 {
			row = n.row(r, len(lists))
		} else {
			row = []float64{n.points[r%len(n.points)]}
		}
		for i, v := range row {
			if r >= len(n.points) { // beside it
				v *= 1 + n.rng.NormFloat64()*math.Ldexp(1, -n.rng.IntN(f.bits))
			}
			lists[i] = append(lists[i], v)
		}
	}
	for i, list := range lists { // as numbers of the type
		x := numbersOf(n.dtype, kt.S(int64(len(list))), list)
		lists[i] = numbersIn(x)
		x.Release()
	}
	want, got := computeNumbers(n.t, op, tensor.Float64, lists), computeNumbers(n.t, op, n.dtype, lists)
	if got == nil || want == nil {
		if got != nil || len(kernels.Rows(op, "CPU")) == 0 {
			n.t.Errorf("%s of %v cannot be compared with float64", op, n.dtype)
		}
		return
	}
	// Products and quotients in between must neither overflow nor be subnormal, which they are elsewhere in a smaller type.
	middle := func(v float64) bool { return v == 0 || math.Abs(math.Log2(math.Abs(v))) < float64(-f.least)/4 }
	least, most := math.Ldexp(1, f.least), math.Ldexp(2-math.Ldexp(1, 1-f.bits), -f.least+1)
	worst, at := 0.0, -1
	for i, w := range want {
		v := got[i]
		switch {
		case math.Abs(w) < 2*least && math.Abs(v) < 2*least: // subnormal, or next to it
			continue
		case slices.ContainsFunc(lists, func(list []float64) bool {
			return list[i] != 0 && math.Abs(list[i]) < least || strings.HasSuffix(op, "Grad") && !middle(list[i])
		}):
			continue
		case math.Abs(w) > most*(1-math.Ldexp(1, -f.bits)) && math.Abs(v) >= most*(1-math.Ldexp(8, -f.bits)) && (v > 0) == (w > 0): // beyond the type, or next to its end
			continue
		case math.IsNaN(w) && math.IsNaN(v) || w == v:
			continue
		}
		e := math.Abs(v-w) / f.unit(w)
		if math.IsNaN(e) { // one of them is no number
			e = math.Inf(1)
		}
		if e > worst {
			worst, at = e, i
		}
	}
	allowed, listed := smallBounds[op]
	if !listed {
		allowed.ulps = smallUlps
	}
	if worst > smallUlps {
		needed[op] = true
	}
	if worst > allowed.ulps {
		var row []float64
		for _, list := range lists {
			row = append(row, list[at])
		}
		n.t.Errorf("%s%v of %v is %v, and of float64 %v: off by %.4g units in the last place", op, row, n.dtype, got[at], want[at], worst)
	}
}
