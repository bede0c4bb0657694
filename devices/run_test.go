package devices

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

var intConst = regexp.MustCompile(`value=\d+`)

// TestDataflow runs graphs whose results show whether the executor's rules were kept.
func TestDataflow(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[int]int64
		dead       []int
	}{
		{name: "a value for two consumers", text: `
			a = Const() value=3
			b = AddV2(a, a)
			c = Mul(a, b)
			r0 = _Retval(b) index=0
			r1 = _Retval(c) index=1`, want: map[int]int64{0: 6, 1: 18}},
		{name: "control edges", text: `
			a = Const() value=1
			b = NoOp(^a)
			c = Const(^b) value=2
			r0 = _Retval(c) index=0`, want: map[int]int64{0: 2}},
		{name: "the branch taken and the one that is not", text: `
			p = Const() value=true
			a = Const() value=5
			s = Switch(a, p)
			no = Neg(s)
			yes = Square(s:1)
			m = Merge(no, yes)
			r0 = _Retval(m) index=0
			r1 = _Retval(m:1) index=1 T=int32
			r2 = _Retval(no) index=2`, want: map[int]int64{0: 25, 1: 1}, dead: []int{2}},
		{name: "a dead control input kills", text: `
			p = Const() value=true
			a = Const() value=5
			s = Switch(a, p)
			no = Identity(s)
			after = Identity(a, ^no)
			r0 = _Retval(after) index=0
			r1 = _Retval(a, ^no) index=1
			r2 = _Retval(a) index=2`, want: map[int]int64{2: 5}, dead: []int{0, 1}},
		{name: "a ControlTrigger is alive whatever comes", text: `
			p = Const() value=true
			a = Const() value=5
			s = Switch(a, p)
			no = Identity(s)
			trigger = ControlTrigger(^no)
			after = Identity(a, ^trigger)
			r0 = _Retval(after) index=0`, want: map[int]int64{0: 5}},
		{name: "a Merge of dead values is dead, and spreads", text: `
			p = Const() value=true
			a = Const() value=5
			s = Switch(a, p)
			x = Neg(s)
			y = Square(s)
			m = Merge(x, y)
			after = Neg(m)
			r0 = _Retval(after) index=0
			r1 = _Retval(m:1) index=1 T=int32`, dead: []int{0, 1}},
		{name: "a Merge waits for its controls", text: `
			p = Const() value=false
			a = Const() value=5
			s = Switch(a, p)
			no = Neg(s)
			yes = Square(s:1)
			slow = Neg(a)
			slower = Neg(slow)
			m = Merge(no, yes, ^slower)
			r0 = _Retval(m) index=0`, want: map[int]int64{0: -5}},
		{name: "a Merge's dead control does not kill it", text: `
			p = Const() value=false
			a = Const() value=5
			s = Switch(a, p)
			no = Neg(s)
			yes = Square(s:1)
			m = Merge(no, yes, ^yes)
			r0 = _Retval(m) index=0`, want: map[int]int64{0: -5}},
		{name: "nested conditionals", text: `
			p = Const() value=true
			q = Const() value=false
			a = Const() value=7
			s = Switch(a, p)
			qs = Switch(q, p) T=bool
			inner = Switch(s:1, qs:1)
			i0 = Neg(inner)
			i1 = Square(inner:1)
			im = Merge(i0, i1)
			o0 = Square(s)
			m = Merge(o0, im)
			r0 = _Retval(m) index=0`, want: map[int]int64{0: -7}},
		{name: "what is sent is received", text: `
			a = Const() value=4
			s = _Send(a) tensor_name="edge"
			r = _Recv() tensor_name="edge"
			b = Neg(r)
			r0 = _Retval(b) index=0`, want: map[int]int64{0: -4}},
		{name: "what is sent dead is received dead", text: `
			p = Const() value=true
			a = Const() value=4
			w = Switch(a, p)
			s = _Send(w) tensor_name="edge"
			r = _Recv() tensor_name="edge"
			b = Neg(r)
			r0 = _Retval(b) index=0`, dead: []int{0}},
		{name: "a receive on a dead branch takes what is sent and is dead", text: `
			p = Const() value=true
			a = Const() value=4
			w = Switch(a, p)
			no = Identity(w)
			s = _Send(a) tensor_name="edge"
			r = _Recv(^no) tensor_name="edge"
			b = Neg(r)
			r0 = _Retval(b) index=0`, dead: []int{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := runText(t, intConst.ReplaceAllString(c.text, "$0 wide=true"), nil)
			if out.err != nil {
				t.Fatal(out.err)
			}
			if !maps.Equal(out.got, c.want) {
				t.Errorf("got %v, want %v", out.got, c.want)
			}
			for _, i := range c.dead {
				if !out.dead[i] {
					t.Errorf("result %d is not dead", i)
				}
			}
			if len(out.dead) != len(c.dead) {
				t.Errorf("dead are %v, want %v", out.dead, c.dead)
			}
		})
	}
}

// countdown is a loop that adds step to a sum while a counter is less than limit.
const countdown = `
	zero = Const() value=0
	limit = Const() value=%[2]d
	step = Const() value=3 wide=true
	zeros = Const() value=0 wide=true
	i0 = Enter(zero) frame_name="loop" parallel_iterations=%[1]d
	sum0 = Enter(zeros) frame_name="loop" parallel_iterations=%[1]d
	lim = Enter(limit) frame_name="loop" parallel_iterations=%[1]d is_constant=true
	stp = Enter(step) frame_name="loop" parallel_iterations=%[1]d is_constant=true
	im = Merge(i0, inext)
	summ = Merge(sum0, sumnext)
	less = Less(im, lim)
	cond = LoopCond(less)
	is = Switch(im, cond)
	ss = Switch(summ, cond)
	ib = Identity(is:1)
	one = Const(^ib) value=1
	iadd = AddV2(ib, one)
	sadd = AddV2(ss:1, stp)
	inext = NextIteration(iadd)
	sumnext = NextIteration(sadd)
	iexit = Exit(is)
	sexit = Exit(ss)
	r0 = _Retval(iexit) index=0
	r1 = _Retval(sexit) index=1`

func TestLoop(t *testing.T) {
	for _, parallel := range []int{1, 2, 10, 32, 1 << 20} {
		for _, n := range []int{0, 1, 2, 33, 1000} {
			out := runText(t, fmt.Sprintf(countdown, parallel, n), nil)
			if out.err != nil {
				t.Fatal(out.err)
			}
			if want := (map[int]int64{0: int64(n), 1: int64(3 * n)}); !maps.Equal(out.got, want) {
				t.Errorf("%d iterations, %d at a time: got %v, want %v", n, parallel, out.got, want)
			}
		}
	}
}

// nested multiplies by adding: for i < n { for j < m { sum++ } }.
const nested = `
	zero = Const() value=0
	n = Const() value=%[2]d
	m = Const() value=%[3]d
	i0 = Enter(zero) frame_name="outer" parallel_iterations=%[1]d
	s0 = Enter(zero) frame_name="outer" parallel_iterations=%[1]d
	nc = Enter(n) frame_name="outer" parallel_iterations=%[1]d is_constant=true
	mc = Enter(m) frame_name="outer" parallel_iterations=%[1]d is_constant=true
	im = Merge(i0, inext)
	sm = Merge(s0, snext)
	il = Less(im, nc)
	ic = LoopCond(il)
	is = Switch(im, ic)
	ss = Switch(sm, ic)
	ib = Identity(is:1)
	one = Const(^ib) value=1
	iadd = AddV2(ib, one)
	inext = NextIteration(iadd)
	j00 = Const(^ib) value=0
	j0 = Enter(j00) frame_name="inner" parallel_iterations=%[1]d
	t0 = Enter(ss:1) frame_name="inner" parallel_iterations=%[1]d
	mcc = Enter(mc) frame_name="inner" parallel_iterations=%[1]d is_constant=true
	jm = Merge(j0, jnext)
	tm = Merge(t0, tnext)
	jl = Less(jm, mcc)
	jc = LoopCond(jl)
	js = Switch(jm, jc)
	ts = Switch(tm, jc)
	jb = Identity(js:1)
	jone = Const(^jb) value=1
	jadd = AddV2(jb, jone)
	tadd = AddV2(ts:1, jone)
	jnext = NextIteration(jadd)
	tnext = NextIteration(tadd)
	texit = Exit(ts)
	snext = NextIteration(texit)
	sexit = Exit(ss)
	r0 = _Retval(sexit) index=0`

func TestNestedLoops(t *testing.T) {
	for _, parallel := range []int{1, 10, 32} {
		for _, size := range [][2]int{{0, 5}, {1, 0}, {5, 0}, {7, 9}, {40, 3}} {
			out := runText(t, fmt.Sprintf(nested, parallel, size[0], size[1]), nil)
			if out.err != nil {
				t.Fatal(out.err)
			}
			if want := int64(size[0] * size[1]); out.got[0] != want {
				t.Errorf("%v, %d at a time: got %v, want %d", size, parallel, out.got, want)
			}
		}
	}
}

// TestNestedLoopsAreBounded runs loops within a loop whose iterations all begin before the inner loops continue. Each inner loop has as
// much room for iterations as it asks for.
func TestNestedLoopsAreBounded(t *testing.T) {
	apart := strings.ReplaceAll(nested, "t0 = Enter(ss:1)", "t0 = Enter(hold)")
	apart = strings.ReplaceAll(apart, "snext = NextIteration(texit)", "snext = NextIteration(ss:1)") // no iteration waits for the one before
	apart = strings.ReplaceAll(apart, "j00 = Const(^ib) value=0", "j00 = Const(^ib) value=0\n\thold = Neg(ss:1)")
	began := 0
	hold := substitutes{"hold": kernels.AsyncFunc(func(c *kernels.Context, done func(error)) {
		began++
		if _, ok := c.Step.Cancellation.OnCancel(done); !ok {
			done(c.Step.Cancellation.Err())
		}
	})}
	out := runText(t, fmt.Sprintf(apart, maxParallelIterations, 1<<13, 5), hold)
	wantError(t, out.err, status.ResourceExhausted, "loops under way", "parallel_iterations")
	if most := maxWindows/maxParallelIterations + 1; began > most {
		t.Errorf("%d loops were under way; at most %d have room", began, most)
	}
}

// TestLoopNotTaken runs a conditional with a loop in one branch.
func TestLoopNotTaken(t *testing.T) {
	for taken, want := range map[bool]int64{true: 12, false: -4} {
		out := runText(t, fmt.Sprintf(`
			p = Const() value=%v
			a = Const() value=4
			s = Switch(a, p)
			e = Enter(s:1) frame_name="loop"
			three = Const() value=12
			c = Enter(three) frame_name="loop" is_constant=true
			m = Merge(e, next)
			less = Less(m, c)
			cond = LoopCond(less)
			w = Switch(m, cond)
			b = Identity(w:1)
			one = Const(^b) value=1
			add = AddV2(b, one)
			next = NextIteration(add)
			x = Exit(w)
			no = Neg(s)
			out = Merge(x, no)
			r0 = _Retval(out) index=0`, taken), nil)
		if out.err != nil || out.got[0] != want {
			t.Errorf("taken %v: got %v, %v; want %d", taken, out.got, out.err, want)
		}
	}
}

// TestStarvedIteration runs a loop with a node that never gets all its inputs: the Merge beside it gets another value in the first
// iteration only. The inputs that the node did get must be released.
func TestStarvedIteration(t *testing.T) {
	d := newTestDevice(t)
	feed := kernelstest.Iota[int64](tensor.Int64, kernelstest.S(100))
	defer feed.Release()
	p := program(t, d, `
		x = _Arg() index=0
		zero = Const() value=0
		three = Const() value=3
		i0 = Enter(zero) frame_name="loop" parallel_iterations=2
		x0 = Enter(x) frame_name="loop" parallel_iterations=2
		xc = Enter(x) frame_name="loop" parallel_iterations=2 is_constant=true
		lim = Enter(three) frame_name="loop" parallel_iterations=2 is_constant=true
		m = Merge(i0, next)
		less = Less(m, lim)
		cond = LoopCond(less)
		w = Switch(m, cond)
		b = Identity(w:1)
		one = Const(^b) value=1
		add = AddV2(b, one)
		next = NextIteration(add)
		twice = AddV2(xc, xc)
		starved = AddV2(x0, twice)
		exit = Exit(w)
		r0 = _Retval(exit) index=0`, nil)
	for range 3 {
		ended := start(p, newTestStep(newResults(), feed))
		if out := <-ended; out.err != nil || out.got[0] != 3 {
			t.Fatal(out.got, out.err)
		}
	}
}

// TestYield checks that a run releases a goroutine that must not be blocked before it computes on large inputs, and not otherwise.
func TestYield(t *testing.T) {
	const text = `
		x = _Arg() index=0
		y = Neg(x)
		z = Square(y)
		r = _Retval(z) index=0`
	d := newTestDevice(t)
	p := program(t, d, text, nil)
	for _, large := range []bool{false, true} {
		n := int64(3)
		if large {
			n = longInput
		}
		x := kernelstest.Iota[int64](tensor.Int64, kernelstest.S(n))
		step := newTestStep(newResults(), x)
		var later func()
		keep, left := false, false
		step.Runner = &runner{
			yield: func() bool {
				if left {
					t.Error("the run goes on on the goroutine that it has to leave")
				}
				keep = !keep
				left = keep
				return keep
			},
			proceed: func(work func()) { left, later = false, work },
		}
		ended := start(p, step)
		if (later != nil) != large {
			t.Errorf("large %v: the run yielded: %v", large, later != nil)
		}
		if large {
			select {
			case <-ended:
				t.Error("the run has ended before it went on")
			default:
			}
			for later != nil {
				work := later
				later = nil
				work()
			}
		}
		if o := <-ended; o.err != nil {
			t.Error(o.err)
		}
		x.Release()
	}
}
