package devices

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// optimized compiles the text of a graph, and closes the program when the test ends.
func optimized(t testing.TB, d *CPU, text string, optimize bool) *Program {
	t.Helper()
	p, err := Compile(graphOf(t, text), d, CompileOptions{Optimize: optimize})
	if err != nil {
		t.Fatal(err, text)
	}
	t.Cleanup(p.Close)
	return p
}

// running returns the names of the program's nodes that run, except arguments and results.
func (p *Program) running() string {
	var names []string
	seen := map[*node]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if n.kind != kindArg && n.kind != kindRetval {
			names = append(names, n.graph.Name)
		}
		for _, e := range n.edges {
			visit(e.dst)
		}
		for _, c := range n.ctrl {
			visit(c)
		}
	}
	for _, n := range p.roots {
		visit(n)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestOptimize checks which nodes are left. Their results, and a trace, must be those of all nodes.
func TestOptimize(t *testing.T) {
	for _, c := range []struct{ name, text, left string }{
		{name: "constants are folded", left: "d", text: `
			x = _Arg() index=0
			a = Const() value=3
			b = Neg(a)
			c = Square(b)
			d = AddV2(x, c)
			r0 = _Retval(d) index=0`},
		{name: "what fails is left to the step", left: "b", text: `
			a = Const() value=3
			z = Const() value=0
			b = FloorDiv(a, z)
			r0 = _Retval(b) index=0`},
		{name: "a target runs", left: "b t", text: `
			x = _Arg() index=0
			a = Const() value=3
			t = Neg(a)
			b = Neg(x)
			r0 = _Retval(b) index=0`},
		{name: "the same is computed once", left: "c f", text: `
			x = _Arg() index=0
			a = Const() value=3
			b = Const() value=3
			c = FloorDiv(x, a)
			d = FloorDiv(x, b)
			f = FloorDiv(c, d)
			g = FloorDiv(d, c)
			r0 = _Retval(f) index=0
			r1 = _Retval(g) index=1`},
		{name: "other attributes, other nodes", left: "b c d", text: `
			x = _Arg() index=0
			b = ZerosLike(x) 
			c = OnesLike(x)
			d = Neg(x)
			r0 = _Retval(b) index=0
			r1 = _Retval(c) index=1
			r2 = _Retval(d) index=2`},
		{name: "a chain", left: "d", text: `
			x = _Arg() index=0
			a = Neg(x)
			b = Square(a)
			c = AddV2(b, x)
			d = Mul(c, b)
			r0 = _Retval(d) index=0`},
		{name: "a chain ends where others take its result", left: "b d", text: `
			x = _Arg() index=0
			a = Neg(x)
			b = Square(a)
			c = Neg(b)
			d = Square(c)
			r0 = _Retval(d) index=0
			r1 = _Retval(b) index=1`},
		{name: "a chain ends where something waits", left: "b n", text: `
			x = _Arg() index=0
			a = Neg(x)
			b = Square(a, ^n)
			n = NoOp(^x)
			r0 = _Retval(b) index=0`},
		{name: "what is waited for is in no chain", left: "a b n", text: `
			x = _Arg() index=0
			a = Neg(x)
			n = NoOp(^a)
			b = Square(a)
			r0 = _Retval(b) index=0`},
		{name: "a chain in a branch", left: "m no s yes", text: `
			x = _Arg() index=0
			p = Const() value=true
			s = Switch(x, p)
			a = Neg(s)
			no = Square(a)
			b = Square(s:1)
			yes = Neg(b)
			m = Merge(no, yes)
			r0 = _Retval(m) index=0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newTestDevice(t)
			text := intConst.ReplaceAllString(c.text, "$0 wide=true")
			p, plain := optimized(t, d, text, true), optimized(t, d, text, false)
			if got := p.running(); !strings.Contains(" "+got+" ", " "+c.left+" ") || len(got) > len(c.left)+len(" no") {
				t.Errorf("%q run, not %q", got, c.left)
			}
			x := tensor.FromScalar(int64(5))
			defer x.Release()
			ended := start(p, newTestStep(newResults(), x))
			wanted := start(plain, newTestStep(newResults(), x))
			got, want := <-ended, <-wanted
			if fmt.Sprint(got.got, got.err) != fmt.Sprint(want.got, want.err) {
				t.Errorf("got %v, %v, want %v, %v", got.got, got.err, want.got, want.err)
			}
			if a, b := traceOf(p, x), traceOf(plain, x); a != b {
				t.Errorf("a trace of %q, not %q", a, b)
			}
		})
	}
}

// traceOf returns the names in a run's trace.
func traceOf(p *Program, x *tensor.Tensor) string {
	var names []string
	step := newTestStep(newResults(), x)
	step.Tracer = tracer(func(n *graph.Node, _ []kernels.Value) { names = append(names, n.Name) })
	ended := start(p, step)
	<-ended
	slices.Sort(names)
	return strings.Join(names, " ")
}

// fetched receives what a run fetches.
type fetched struct {
	mu   sync.Mutex
	text []string
}

func (f *fetched) Fetch(index int, t *tensor.Tensor, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = append(f.text, fmt.Sprintf("%d %v %v %x", index, dead, t.Shape(), t.Data()))
	t.Release()
}

// lines is the text of a graph, reduced to what its result needs.
type lines struct {
	needs map[string][]string
	lines map[string]string
	text  strings.Builder
}

func (l *lines) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	name, rest, _ := strings.Cut(line, " = ")
	_, rest, _ = strings.Cut(rest, "(")
	inputs, _, _ := strings.Cut(rest, ")")
	l.lines[name], l.needs[name] = line, strings.Split(inputs, ", ")
}

func (l *lines) keep(name string) {
	line, ok := l.lines[name]
	if !ok {
		return
	}
	delete(l.lines, name)
	for _, in := range l.needs[name] {
		l.keep(in)
	}
	fmt.Fprintln(&l.text, line)
}

// TestChainsOracle compares random graphs of elementwise ops with and without chains, to the bit, including errors.
func TestChainsOracle(t *testing.T) {
	shapes := []tensor.Shape{{}, {1}, {1500}, {3, 1500}, {3, 1}, {1, 1500}, {40, 7}, {7}, {40, 1}, {4, 10, 7}, {10, 1}, {4, 1, 7}, {2, 40000}, {40000}, {0, 7}, {60, 1100}, {1100}}
	unary := []string{"Neg", "Square", "Tanh", "Relu", "Abs", "Sigmoid", "Rsqrt", "Exp"}
	binary := []string{"AddV2", "Sub", "Mul", "Maximum", "RealDiv", "SquaredDifference", "TanhGrad", "ReluGrad"}
	chains, failed := 0, 0
	for seed := range 400 {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		text := &lines{needs: map[string][]string{}, lines: map[string]string{}}
		var names []string
		var feeds []*tensor.Tensor
		family := shapes[rng.IntN(len(shapes))]
		for i := range 1 + rng.IntN(4) {
			shape := shapes[rng.IntN(len(shapes))]
			if rng.IntN(4) > 0 {
				shape = family
			} else if rng.IntN(2) > 0 && len(family) > 1 {
				shape = []tensor.Shape{{}, family[1:], family[:1], append(slices.Clone(family[:len(family)-1]), 1)}[rng.IntN(4)]
			}
			x := kernelstest.Of[float32](tensor.Float32, shape, make([]float32, shape.Elements())...)
			for k := range tensor.Of[float32](x) {
				tensor.Of[float32](x)[k] = float32(rng.NormFloat64())
			}
			feeds = append(feeds, x)
			names = append(names, fmt.Sprintf("x%d", i))
			text.add("x%d = _Arg() index=%d T=float", i, i)
		}
		for i := range 2 + rng.IntN(12) {
			pick := func() string { return names[max(0, len(names)-1-rng.IntN(4))] }
			switch name := fmt.Sprintf("n%d", i); rng.IntN(10) {
			case 0, 1, 2:
				text.add("%s = %s(%s) T=float", name, unary[rng.IntN(len(unary))], pick())
			case 3:
				text.add("c%s = Cast(%s) SrcT=float DstT=int32", name, pick())
				text.add("%s = Cast(c%s) SrcT=int32 DstT=float", name, name)
			case 4:
				text.add("%s = BiasAdd(%s, %s) T=float data_format=\"NHWC\"", name, pick(), names[rng.IntN(len(feeds))])
			default:
				text.add("%s = %s(%s, %s) T=float", name, binary[rng.IntN(len(binary))], pick(), pick())
			}
			names = append(names, fmt.Sprintf("n%d", i))
		}
		text.add("r = _Retval(%s) index=0 T=float", names[len(names)-1])
		text.keep("r")
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := newTestDevice(t)
			var outcomes [2]string
			for i, optimize := range []bool{false, true} {
				p := optimized(t, d, text.text.String(), optimize)
				if len(p.originals) > 0 {
					chains++
				}
				for range 2 { // the second run knows its layout
					f := &fetched{}
					err := make(chan error, 1)
					p.Run(newTestStep(f, feeds...), func(e error) { err <- e })
					outcomes[i] = strings.Join(f.text, "")
					if e := <-err; e != nil {
						outcomes[i] = "an error" // of any op that fails
						failed++
					}
				}
			}
			if outcomes[0] != outcomes[1] {
				t.Errorf("%.300s\ninstead of\n%.300s\nin\n%s", outcomes[1], outcomes[0], text.text.String())
			}
		})
		kernels.ReleaseTensors(feeds)
	}
	if chains < 200 || failed < 40 || failed > 1000 {
		t.Errorf("only %d graphs had chains, and %d of 1600 runs failed", chains, failed)
	}
}

// BenchmarkElementwise runs ten consecutive elementwise ops, separately and as a chain.
func BenchmarkElementwise(b *testing.B) {
	const text = `
		x = _Arg() index=0 T=float
		k = _Arg() index=1 T=float
		a = Mul(x, x) T=float
		c = Mul(a, x) T=float
		d = Mul(c, k) T=float
		e = AddV2(x, d) T=float
		f = Mul(e, k) T=float
		g = Relu(f) T=float
		h = AddV2(g, k) T=float
		i = Mul(h, x) T=float
		j = Mul(i, k) T=float
		l = Neg(j) T=float
		r = _Retval(l) index=0 T=float`
	for _, n := range []int{10, 1000, 100_000, 10_000_000} {
		for _, optimize := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/%v", n, optimize), func(b *testing.B) {
				d := newTestDevice(b)
				p := optimized(b, d, text, optimize)
				x, k := kernelstest.F32(tensor.Shape{int64(n)}, make([]float32, n)...), kernelstest.F32(nil, 0.5)
				defer x.Release()
				defer k.Release()
				step := newTestStep(drop{}, x, k)
				done := func(err error) {
					if err != nil {
						b.Error(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					p.Run(step, done)
				}
			})
		}
	}
}
