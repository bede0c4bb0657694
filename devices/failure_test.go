package devices

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// gate is a kernel that ends when the test says so, or with its step.
type gate chan waiter

type waiter struct {
	ctx  *kernels.Context
	done func(error)
}

func (g gate) ComputeAsync(ctx *kernels.Context, done func(error)) {
	withdraw, ok := ctx.Step.Cancellation.OnCancel(done)
	if !ok {
		done(ctx.Step.Cancellation.Err())
		return
	}
	g <- waiter{ctx, func(err error) {
		if withdraw() {
			done(err)
		}
	}}
}

func fails(err error) kernels.Func { return func(*kernels.Context) error { return err } }

// wide is the text of a graph whose values use memory of the pool, with room for further nodes.
const wide = `
	a = Const() value=3 wide=true
	b = AddV2(a, a)
	c = AddV2(b, a)
`

func TestErrors(t *testing.T) {
	boom := status.Errorf(status.OutOfRange, "boom")
	panics := kernels.Func(func(ctx *kernels.Context) error {
		if _, err := ctx.Allocate(0, tensor.Int64, kernelstest.S(100)); err != nil {
			return err
		}
		panic("ouch")
	})
	for _, c := range []struct {
		name, text string
		kernels    substitutes
		code       status.Code
		says       []string
	}{
		{"a kernel fails", wide + `
			x = Neg(c)
			r0 = _Retval(x) index=0`, substitutes{"x": fails(boom)}, status.OutOfRange, []string{"boom", "{{node x}}"}},
		{"the node is the user's", wide + `
			x_1 = Neg(c) _user_node="x"
			r0 = _Retval(x_1) index=0`, substitutes{"x_1": fails(boom)}, status.OutOfRange, []string{"boom", "{{node x}}"}},
		{"what a kernel runs fails", wide + `
			x = Neg(c) _user_node="user"
			r0 = _Retval(x) index=0`, substitutes{"x": fails(status.AtNode(boom, "inner"))}, status.OutOfRange, []string{"boom\n\t [[{{node inner}}]]\n\t [[user]]"}},
		{"a kernel panics", wide + `
			x = Neg(c)
			y = Neg(c)
			r0 = _Retval(x) index=0
			r1 = _Retval(y) index=1`, substitutes{"x": panics}, status.Internal, []string{"ouch", "op Neg", "{{node x}}", "failure_test.go"}},
		{"an asynchronous kernel panics", wide + `
			x = Neg(c)
			r0 = _Retval(x) index=0`, substitutes{"x": kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
			ctx.SetOutput(0, ctx.Take(0))
			panic("ouch")
		})}, status.Internal, []string{"ouch", "{{node x}}"}},
		{"an asynchronous kernel panics after its end", wide + `
			x = Neg(c)
			r0 = _Retval(x) index=0`, substitutes{"x": kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
			done(boom)
			panic("ouch")
		})}, status.OutOfRange, []string{"boom"}},
		{"an output is missing", wide + `
			x = Neg(c)
			r0 = _Retval(x) index=0`, substitutes{"x": fails(nil)}, status.Internal, []string{"Missing 0-th output", "{{node x}}"}},
		{"a feed is of another type", `
			x = _Arg() index=0
			r0 = _Retval(x) index=0`, nil, status.InvalidArgument, []string{"Type mismatch", "float", "int64"}},
		{"there is no feed", `
			x = _Arg() index=7
			r0 = _Retval(x) index=0`, nil, status.Internal, []string{"7", "{{node x}}"}},
		{"a root error wins over a derived one", wide + `
			x = Neg(c)
			y = Neg(c)
			g = Neg(c)`, substitutes{"x": make(gate, 64), "g": make(gate, 64), "y": fails(boom)}, status.OutOfRange, []string{"boom", "{{node y}}"}},
		{"an edge is sent twice", wide + `
			s = _Send(c) tensor_name="e"
			t = _Send(c) tensor_name="e"`, nil, status.Internal, []string{"e", "twice"}},
		{"an edge is received twice", `
			s = _Recv() tensor_name="e"
			t = _Recv() tensor_name="e"`, nil, status.Internal, []string{"e", "twice"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newTestDevice(t)
			p := program(t, d, c.text, c.kernels)
			feed := kernelstest.F32(kernelstest.S(8), 1, 2, 3, 4, 5, 6, 7, 8)
			defer feed.Release()
			for range 3 { // a run's memory is reused
				step := newTestStep(newResults(), feed)
				if c.name[:7] == "an edge" {
					step.Cancellation.OnCancel(step.Rendezvous.(*Rendezvous).Abort)
				}
				ended := start(p, step)
				out := <-ended
				wantError(t, out.err, c.code, c.says...)
				if status.From(out.err).Derived {
					t.Error("the error is derived")
				}
				if err := step.Cancellation.Err(); err == nil || !status.From(err).Derived {
					t.Errorf("the step was cancelled with %v, want a derived error", err)
				}
				step.Rendezvous.(*Rendezvous).Abort(boom)
			}
		})
	}
}

// TestCallersAreNamed checks which callers' names follow the name of a failed node: the same as in TensorFlow.
func TestCallersAreNamed(t *testing.T) {
	lowered := graph.Attrs{lower.Attr: {Value: &attrpb.AttrValue_B{B: true}}}
	kept := graph.Attrs{lower.Attr: {Value: &attrpb.AttrValue_B{B: false}}}
	for _, c := range []struct {
		op             string
		attrs          graph.Attrs
		step, function bool // whether it is named in a part of a step, and in a function's body
	}{
		{"IteratorGetNext", nil, true, true},
		{"ReduceDataset", nil, true, true},
		{"MapDefun", nil, true, true},
		{"RemoteCall", nil, true, true},
		{"For", nil, true, true},
		{"PartitionedCall", nil, true, false},
		{"StatefulPartitionedCall", nil, true, false},
		{"some_function", nil, true, false},
		{"If", kept, true, true},
		{"StatelessWhile", nil, true, true},
		{"If", lowered, false, false},
		{"StatelessIf", lowered, false, false},
		{"Case", lowered, false, false},
		{"While", lowered, false, false},
		{"StatelessWhile", lowered, false, false},
		{"_Recv", nil, false, false},
		{"_HostRecv", nil, false, false},
	} {
		g := &graph.Node{Op: c.op, Attrs: c.attrs}
		g.Def, _ = graph.LookupOp(c.op) // nil for a function's op
		n := &node{graph: g, recv: strings.HasSuffix(c.op, "Recv"), calls: callsFunctions(g)}
		for function, want := range map[string]bool{"": c.step, "f": c.function} {
			if got := (&Program{function: function}).calledBy(n); got != want {
				t.Errorf("%s with %v in function %q: %v, want %v", c.op, c.attrs, function, got, want)
			}
		}
		if (&Program{originals: map[*graph.Node]any{g: 0}}).calledBy(n) {
			t.Errorf("%s is named though its kernel was replaced, whose ops name themselves", c.op)
		}
	}
}

// TestStaleOutputs runs a program whose first run panics with outputs set. The second run must not see them.
func TestStaleOutputs(t *testing.T) {
	d := newTestDevice(t)
	var runs atomic.Int32
	p := program(t, d, wide+`
		x = Neg(c)
		r0 = _Retval(x) index=0`, substitutes{"x": kernels.Func(func(ctx *kernels.Context) error {
		if runs.Add(1) == 1 {
			ctx.Pass(0, 0)
			panic("ouch")
		}
		return nil
	})})
	for _, says := range []string{"ouch", "Missing 0-th output"} {
		ended := start(p, newTestStep(newResults()))
		wantError(t, (<-ended).err, status.Internal, says)
	}
}

// TestPanicAlone checks that a program that panics does not affect other programs of the same device.
func TestPanicAlone(t *testing.T) {
	d := newTestDevice(t)
	bad := program(t, d, wide+`x = Neg(c)`, substitutes{"x": kernels.Func(func(*kernels.Context) error { panic("ouch") })})
	good := program(t, d, wide+`r0 = _Retval(c) index=0`, nil)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			p := good
			if i%2 == 0 {
				p = bad
			}
			ended := start(p, newTestStep(newResults()))
			if out := <-ended; i%2 == 0 {
				wantError(t, out.err, status.Internal, "ouch")
			} else if out.err != nil || out.got[0] != 9 {
				t.Error(out.got, out.err)
			}
		})
	}
	wg.Wait()
}

// TestAsync ends asynchronous kernels before they return, on other goroutines, and twice.
func TestAsync(t *testing.T) {
	negate := func(ctx *kernels.Context) {
		out, err := ctx.Forward(0, 0, tensor.Int64, ctx.Input(0).Shape())
		if err != nil {
			panic(err)
		}
		for i, v := range tensor.Of[int64](ctx.Input(0)) {
			tensor.Of[int64](out)[i] = -v
		}
	}
	for name, k := range map[string]kernels.AsyncFunc{
		"inline":    func(ctx *kernels.Context, done func(error)) { negate(ctx); done(nil) },
		"twice":     func(ctx *kernels.Context, done func(error)) { negate(ctx); done(nil); done(status.Internalf("late")) },
		"elsewhere": func(ctx *kernels.Context, done func(error)) { go func() { negate(ctx); done(nil) }() },
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestDevice(t)
			p := program(t, d, wide+`
				x = Neg(c)
				y = Neg(c)
				z = AddV2(x, y)
				w = Neg(z)
				r0 = _Retval(w) index=0`, substitutes{"x": k, "y": k, "w": k})
			for range 100 {
				ended := start(p, newTestStep(newResults()))
				if out := <-ended; out.err != nil || out.got[0] != 18 {
					t.Fatal(out.got, out.err)
				}
			}
		})
	}
}

// waiting returns the names of the nodes that the runs of a step wait for.
func waiting(runs *kernels.Runs, limit int) (names []string) {
	for _, w := range LookAt(runs, limit, true).Waits {
		names = append(names, w.Node.Name)
	}
	return names
}

func TestCancellation(t *testing.T) {
	d := newTestDevice(t)
	g := make(gate, 64)
	p := program(t, d, wide+`
		x = Neg(c)
		y = Neg(c)
		z = AddV2(x, y)
		r0 = _Retval(z) index=0`, substitutes{"x": g})
	for range 3 {
		step := newTestStep(newResults())
		runs := &kernels.Runs{}
		step.Runs = runs
		ended := start(p, step)
		x := <-g
		if names := waiting(runs, 5); !slices.Equal(names, []string{"x"}) {
			t.Errorf("the run waits for %v, want x", names)
		}
		if names := waiting(runs, 0); names != nil {
			t.Errorf("at most none: %v", names)
		}
		step.Cancellation.Cancel(status.Errorf(status.Cancelled, "enough"))
		out := <-ended
		wantError(t, out.err, status.Cancelled, "enough")
		if names := waiting(runs, 5); names != nil {
			t.Errorf("a run that ended waits for %v", names)
		}
		x.done(nil) // too late
	}
	t.Run("before it begins", func(t *testing.T) {
		step := newTestStep(newResults())
		step.Cancellation.Cancel(status.Errorf(status.Cancelled, "enough"))
		ended := start(p, step)
		wantError(t, (<-ended).err, status.Cancelled, "enough")
	})
	t.Run("an endless loop", func(t *testing.T) {
		rounds := make(chan struct{})
		p := program(t, d, `
			zero = Const() value=0 wide=true
			yes = Const() value=true
			e = Enter(zero) frame_name="loop"
			pred = Enter(yes) frame_name="loop" is_constant=true T=bool
			m = Merge(e, next)
			here = NoOp(^m)
			always = Identity(pred, ^here) T=bool
			cond = LoopCond(always)
			w = Switch(m, cond)
			n = Neg(w:1)
			next = NextIteration(n)
			x = Exit(w)
			r0 = _Retval(x) index=0`, substitutes{"n": kernels.Func(func(ctx *kernels.Context) error {
			select {
			case rounds <- struct{}{}:
			default:
			}
			ctx.Pass(0, 0)
			return nil
		})})
		step := newTestStep(newResults())
		ended := make(chan outcome, 1)
		go func() {
			end := start(p, step)
			ended <- <-end
		}()
		for range 60 {
			<-rounds
		}
		step.Cancellation.Cancel(status.Errorf(status.Cancelled, "enough"))
		wantError(t, (<-ended).err, status.Cancelled, "enough")
	})
}

// TestHandOver checks that the owner runs the next costly kernel while one waits on another goroutine.
func TestHandOver(t *testing.T) {
	if cap(helpers) == 0 {
		t.Skip("there are no helpers on one processor")
	}
	d := newTestDevice(t)
	met := make(chan struct{})
	// Two of them must run at the same time for either to end.
	meet := kernels.Func(func(ctx *kernels.Context) error {
		select {
		case met <- struct{}{}:
		case <-met:
		case <-time.After(10 * time.Second):
			return status.Internalf("nobody came")
		}
		ctx.Pass(0, 0)
		return nil
	})
	p := program(t, d, wide+`
		x = MatMul(a, b)
		y = MatMul(b, a)
		z = AddV2(x, y)
		r0 = _Retval(z) index=0`, substitutes{"x": meet, "y": meet})
	for range 20 {
		ended := start(p, newTestStep(newResults()))
		if out := <-ended; out.err != nil || out.got[0] != 9 {
			t.Fatal(out.got, out.err)
		}
	}
	if len(helpers) != 0 {
		t.Errorf("%d helpers are still taken", len(helpers))
	}
	p = program(t, d, wide+`
		x = MatMul(a, b)
		y = MatMul(b, a)`, substitutes{"x": fails(nil), "y": kernels.Func(func(*kernels.Context) error { panic("ouch") })})
	ended := start(p, newTestStep(newResults()))
	wantError(t, (<-ended).err, status.Internal)
}

// TestManyRuns runs one program thousands of times concurrently, with values that wait in between.
func TestManyRuns(t *testing.T) {
	d := newTestDevice(t)
	g := make(gate, 64)
	p := program(t, d, wide+`
		f = _Arg() index=0
		x = Neg(f)
		y = AddV2(x, c)
		r0 = _Retval(y) index=0`, substitutes{"x": g})
	const runs = 4000
	var began, ended sync.WaitGroup
	steps := make([]*kernels.Step, runs)
	for i := range steps {
		feed := kernelstest.I64(kernelstest.S(3), int64(i), 0, 0)
		r := newResults()
		steps[i] = newTestStep(r, feed)
		ended.Add(1)
		began.Go(func() {
			p.Run(steps[i], func(err error) {
				defer ended.Done()
				feed.Release()
				if i%7 == 0 {
					wantError(t, err, status.Aborted, "seven")
				} else if err != nil || r.got[0] != int64(i+9) {
					t.Error(i, r.got, err)
				}
			})
		})
	}
	go func() {
		for range runs {
			h := <-g
			n := tensor.Of[int64](h.ctx.Input(0))[0]
			if n%7 == 0 {
				h.ctx.Step.Cancellation.Cancel(status.Errorf(status.Aborted, "seven"))
				continue
			}
			h.ctx.Pass(0, 0)
			h.done(nil)
		}
	}()
	began.Wait()
	ended.Wait()
}

// TestPanicBesideKernels checks that a panic of the run itself, or in a callback of its step, fails and ends the run.
func TestPanicBesideKernels(t *testing.T) {
	const text = "c = Const() value=1\nhold = Neg(c)\nr = _Retval(hold) index=0"
	hold := substitutes{"hold": kernels.AsyncFunc(func(c *kernels.Context, done func(error)) {
		if _, ok := c.Step.Cancellation.OnCancel(done); !ok {
			done(c.Step.Cancellation.Err())
		}
	})}
	for name, prepare := range map[string]func(*kernels.Step){
		"flush": func(s *kernels.Step) { s.Runner = &runner{flush: func() { panic("at fault") }} },
		"trace": func(s *kernels.Step) {
			s.Tracer = tracer(func(*graph.Node, []kernels.Value) { panic("at fault") })
		},
	} {
		p := program(t, newTestDevice(t), text, hold)
		step := newTestStep(newResults())
		step.Log = slog.New(slog.DiscardHandler)
		prepare(step)
		ended := start(p, step)
		out := <-ended
		wantError(t, out.err, status.Internal, "The run of a step panicked: at fault")
		if name == "flush" { // the program is undamaged
			step = newTestStep(newResults())
			ended = start(p, step)
			step.Cancellation.Cancel(status.Errorf(status.Cancelled, "enough"))
			wantError(t, (<-ended).err, status.Cancelled, "enough")
		}
	}
	p := program(t, newTestDevice(t), "n = NoOp()", nil)
	step := newTestStep(newResults())
	step.Log = slog.New(slog.DiscardHandler)
	p.Run(step, func(error) { panic("of the one who is told") })
}
