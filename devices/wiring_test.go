package devices

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// TestSimplification checks that nodes that need not run do not, and that nodes with effects beyond their value do. A trace includes the
// constants anyway.
func TestSimplification(t *testing.T) {
	const branch = `
		p = Const() value=true
		a = Const() value=5
		s = Switch(a, p)
		`
	for _, c := range []struct {
		name, text string
		traced     string // names in order, except _Retval
		constants  string
		want       map[int]int64
		dead       []int
	}{
		{name: "a constant and identities in a row", text: `
			a = Const() value=3
			b = Identity(a)
			c = StopGradient(b)
			d = AddV2(b, c)
			r0 = _Retval(d) index=0`, traced: "a d", constants: "a", want: map[int]int64{0: 6}},
		{name: "a constant alone", text: `
			a = Const() value=3
			r0 = _Retval(a) index=0`, traced: "a", constants: "a", want: map[int]int64{0: 3}},
		{name: "a constant that waits", text: `
			x = _Arg() index=0
			y = Neg(x)
			a = Const(^y) value=3
			r0 = _Retval(a) index=0`, traced: "a y", constants: "a", want: map[int]int64{0: 3}},
		{name: "what waits for a constant that waits", text: `
			x = _Arg() index=0
			y = Neg(x)
			a = Const(^y) value=3
			b = Const(^a) value=4
			n = NoOp(^a)
			c = Square(b, ^n)
			r0 = _Retval(c) index=0`, traced: "a b c n y", constants: "a b", want: map[int]int64{0: 16}},
		{name: "a constant that waits for two and has two users", text: `
			x = _Arg() index=0
			y = Neg(x)
			z = Square(x)
			a = Const(^y, ^z) value=3
			b = Neg(a)
			r0 = _Retval(b) index=0
			r1 = _Retval(a) index=1`, traced: "a b y z", want: map[int]int64{0: -3, 1: 3}},
		{name: "a constant of a branch that is not taken", text: branch + `
			no = Identity(s)
			c = Const(^no) value=7
			b = Neg(c)
			r0 = _Retval(b) index=0
			r1 = _Retval(c) index=1`, traced: "a c p s", constants: "a c p", dead: []int{0, 1}},
		{name: "a Merge tells which constant came", text: branch + `
			no = Identity(s)
			yes = Identity(s:1)
			c = Const(^no) value=7
			d = Const(^yes) value=8
			m = Merge(c, d)
			r0 = _Retval(m) index=0
			r1 = _Retval(m:1) index=1 T=int32`, traced: "a d m p s yes", constants: "a p", want: map[int]int64{0: 8, 1: 1}},
		{name: "identities of branches meet", text: branch + `
			no = Identity(s)
			yes = Identity(s:1)
			m = Merge(no, yes)
			r0 = _Retval(m) index=0
			r1 = _Retval(m:1) index=1 T=int32`, traced: "a m p s", constants: "a p", want: map[int]int64{0: 5, 1: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newTestDevice(t)
			p := program(t, d, intConst.ReplaceAllString(c.text, "$0 wide=true"), nil)
			var constants, traced []string
			for _, k := range p.constants {
				constants = append(constants, k.graph.Name)
			}
			slices.Sort(constants)
			if got := strings.Join(constants, " "); got != c.constants {
				t.Errorf("constants %q, not %q", got, c.constants)
			}
			x := tensor.FromScalar(int64(2))
			defer x.Release()
			step := newTestStep(newResults(), x)
			step.Tracer = tracer(func(n *graph.Node, _ []kernels.Value) {
				if n.Op != "_Retval" {
					traced = append(traced, n.Name)
				}
			})
			ended := start(p, step)
			got := <-ended
			if got.err != nil {
				t.Fatal(got.err)
			}
			slices.Sort(traced)
			if text := strings.Join(traced, " "); text != c.traced {
				t.Errorf("a trace of %q, not %q", text, c.traced)
			}
			for i, want := range c.want {
				if v, ok := got.got[i]; !ok || v != want {
					t.Errorf("result %d is %d, %v; want %d", i, v, ok, want)
				}
			}
			for _, i := range c.dead {
				if !got.dead[i] {
					t.Errorf("result %d is not dead", i)
				}
			}
		})
	}
}
