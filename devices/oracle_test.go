package devices

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
)

// expr is an expression of a small language of numbers, conditionals and loops. It can be evaluated, and it can be written as a dataflow
// graph in the form in which TensorFlow's client writes such programs.
type expr interface {
	eval(vars []int64) int64
	write(c *scope, vars []place) place
}

type (
	variable   int
	constant   int64
	binaryExpr struct {
		op    string
		a, b  expr
		async bool // computed by a kernel that ends on another goroutine
	}
	conditional struct{ a, b, less, more expr } // less if a < b, else more
	loop        struct {
		times    int64
		start    []expr
		body     []expr // of the outer variables, the loop's own and the count
		result   int
		parallel int
	}
)

func (v variable) eval(vars []int64) int64 { return vars[v] }
func (k constant) eval([]int64) int64      { return int64(k) }

func (e binaryExpr) eval(vars []int64) int64 {
	a, b := e.a.eval(vars), e.b.eval(vars)
	switch e.op {
	case "AddV2":
		return a + b
	case "Sub":
		return a - b
	}
	return a * b
}

func (e conditional) eval(vars []int64) int64 {
	if e.a.eval(vars) < e.b.eval(vars) {
		return e.less.eval(vars)
	}
	return e.more.eval(vars)
}

func (e loop) eval(vars []int64) int64 {
	own := make([]int64, len(e.start))
	for i, s := range e.start {
		own[i] = s.eval(vars)
	}
	for n := range e.times {
		inner := append(append([]int64{n}, vars...), own...)
		next := make([]int64, len(own))
		for i, b := range e.body {
			next[i] = b.eval(inner)
		}
		own = next
	}
	return own[e.result]
}

// scope is a context of control flow: the outermost one, a branch, or a loop's body.
type scope struct {
	*writer
	parent *scope
	// enter makes a value of the parent available here; anchor is a node that runs when the scope does.
	enter    func(name string) string
	anchor   string
	imported map[string]string
}

// place is a value in a scope.
type place struct {
	in   *scope
	name string
}

type writer struct {
	text  strings.Builder
	nodes int
	rng   *rand.Rand
}

// add writes a node and returns its name.
func (w *writer) add(prefix, op string, inputs ...string) string {
	w.nodes++
	name := fmt.Sprintf("%s%d", prefix, w.nodes)
	attrs := ""
	if i := strings.IndexByte(op, ' '); i > 0 {
		op, attrs = op[:i], op[i:]
	}
	fmt.Fprintf(&w.text, "%s = %s(%s)%s\n", name, op, strings.Join(inputs, ", "), attrs)
	return name
}

// here returns the value's name in c, which is the value's own scope or within it.
func (c *scope) here(p place) string {
	if p.in == c {
		return p.name
	}
	outside := c.parent.here(p)
	if name, ok := c.imported[outside]; ok {
		return name
	}
	name := c.enter(outside)
	c.imported[outside] = name
	return name
}

// number writes a constant: a vector, so it uses memory of a pool.
func (c *scope) number(n int64, attrs string) string {
	var controls []string
	if c.anchor != "" {
		controls = []string{"^" + c.anchor}
	}
	return c.add("k", fmt.Sprintf("Const value=%d%s", n, attrs), controls...)
}

// less writes a scalar predicate of two vectors.
func (c *scope) less(a, b string) string {
	lt := c.add("lt", "Less", a, b)
	return c.add("all", "All", lt, c.number(0, ""))
}

func (v variable) write(_ *scope, vars []place) place { return vars[v] }
func (k constant) write(c *scope, _ []place) place {
	return place{c, c.number(int64(k), " wide=true")}
}

func (e binaryExpr) write(c *scope, vars []place) place {
	inputs := []string{c.here(e.a.write(c, vars)), c.here(e.b.write(c, vars))}
	if len(vars) > 0 && c.rng.IntN(3) == 0 { // a control edge without effect
		node, _, _ := strings.Cut(c.here(vars[c.rng.IntN(len(vars))]), ":")
		if other, _, _ := strings.Cut(inputs[0], ":"); node != other && !strings.HasPrefix(node, "s") {
			inputs = append(inputs, "^"+node)
		}
	}
	name := c.add("b", e.op, inputs...)
	if e.async {
		name = c.add("async", "Identity", name)
	}
	return place{c, name}
}

func (e conditional) write(c *scope, vars []place) place {
	pred := c.less(c.here(e.a.write(c, vars)), c.here(e.b.write(c, vars)))
	pivot := c.add("s", "Switch T=bool", pred, pred)
	branch := func(port string, body expr) string {
		in := &scope{writer: c.writer, parent: c, imported: map[string]string{}}
		in.anchor = c.add("pivot", "Identity T=bool", pivot+port)
		in.enter = func(name string) string { return c.add("s", "Switch", name, pred) + port }
		return c.add("id", "Identity", in.here(body.write(in, vars)))
	}
	more, less := branch("", e.more), branch(":1", e.less)
	return place{c, c.add("m", "Merge", more, less)}
}

func (e loop) write(c *scope, vars []place) place {
	frame := fmt.Sprintf(` frame_name="f%d" parallel_iterations=%d`, c.nodes, e.parallel)
	in := &scope{writer: c.writer, parent: c, imported: map[string]string{}}
	in.enter = func(name string) string { return c.add("e", "Enter is_constant=true"+frame, name) }
	starts := []string{c.number(0, " wide=true")}
	for _, s := range e.start {
		starts = append(starts, c.here(s.write(c, vars)))
	}
	limit := in.enter(c.number(e.times, " wide=true"))
	axis := in.enter(c.number(0, ""))
	var merges, switches, nexts []string
	for i, s := range starts {
		next := fmt.Sprintf("next%d_%d", c.nodes, i)
		nexts = append(nexts, next)
		merges = append(merges, c.add("m", "Merge", c.add("e", "Enter"+frame, s), next))
	}
	cond := c.add("cond", "LoopCond", c.add("all", "All", c.add("lt", "Less", merges[0], limit), axis))
	for _, m := range merges {
		switches = append(switches, c.add("s", "Switch", m, cond))
	}
	in.anchor = c.add("count", "Identity", switches[0]+":1")
	inner := append([]place{{in, in.anchor}}, vars...)
	for _, s := range switches[1:] {
		inner = append(inner, place{in, c.add("v", "Identity", s+":1")})
	}
	values := []string{c.add("b", "AddV2", in.anchor, in.number(1, " wide=true"))}
	for _, b := range e.body {
		// A loop invariant alone would start iteration after iteration, whatever the condition.
		values = append(values, in.add("id", "Identity", in.here(b.write(in, inner)), "^"+in.anchor))
	}
	for i, v := range values {
		fmt.Fprintf(&c.text, "%s = NextIteration(%s)\n", nexts[i], v)
	}
	return place{c, c.add("exit", "Exit", switches[e.result+1])}
}

// random makes an expression over the given number of variables.
func random(rng *rand.Rand, vars, depth int) expr {
	if depth == 0 || rng.IntN(8) == 0 {
		if vars > 0 && rng.IntN(4) > 0 {
			return variable(rng.IntN(vars))
		}
		return constant(rng.IntN(9))
	}
	sub := func() expr { return random(rng, vars, depth-1) }
	switch rng.IntN(6) {
	case 0, 1:
		return conditional{sub(), sub(), sub(), sub()}
	case 2:
		l := loop{times: int64(rng.IntN(5)), parallel: []int{1, 2, 10}[rng.IntN(3)]}
		for range 1 + rng.IntN(2) {
			l.start = append(l.start, sub())
		}
		for range l.start {
			l.body = append(l.body, random(rng, 1+vars+len(l.start), depth-1))
		}
		l.result = rng.IntN(len(l.start))
		return l
	}
	return binaryExpr{[]string{"AddV2", "Sub", "Mul"}[rng.IntN(3)], sub(), sub(), rng.IntN(4) == 0}
}

// elsewhere ends the nodes called async on other goroutines.
func elsewhere(_ string, n *graph.Node, _ kernels.Device, _ bool, make func() (any, error)) (any, bool, error) {
	if strings.HasPrefix(n.Name, "async") {
		return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
			go func() {
				ctx.Pass(0, 0)
				done(nil)
			}()
		}), false, nil
	}
	k, err := make()
	return k, false, err
}

// TestOracle compares the results of random programs with those of evaluating them.
func TestOracle(t *testing.T) {
	count := 600
	if !extent.Check() {
		count = 60
	}
	for seed := range count {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		e := random(rng, 0, 1+seed%5)
		c := &scope{writer: &writer{rng: rng}}
		out := c.here(e.write(c, nil))
		c.add("r", "_Retval index=0", out)
		text := c.text.String()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := newTestDevice(t)
			p, err := Compile(graphOf(t, text), d, CompileOptions{Kernels: elsewhere})
			if err != nil {
				t.Fatal(err, "\n", text)
			}
			t.Cleanup(p.Close)
			want := e.eval(nil)
			for range 2 {
				step := newTestStep(newResults())
				limit := time.AfterFunc(20*time.Second, func() { step.Cancellation.Cancel(status.Internalf("does not end")) })
				ended := start(p, step)
				out := <-ended
				limit.Stop()
				if out.err != nil || out.got[0] != want || out.dead[0] {
					t.Fatalf("got %v (dead: %v), %v, want %d:\n%s", out.got, out.dead, out.err, want, text)
				}
			}
		})
	}
}
