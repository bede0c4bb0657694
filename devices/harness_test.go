package devices

import (
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

const testDevice = kernelstest.DeviceName

// graphOf builds a graph from its text.
func graphOf(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Rebuild(kernelstest.GraphDef(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// newTestDevice makes a device. At the test's end all its memory must be free.
func newTestDevice(t testing.TB) *CPU {
	d := NewCPU(nil, testDevice, "test", 0)
	host := tensor.Host.Stats().InUse
	t.Cleanup(func() {
		if n := tensor.Host.Stats().InUse; n != host {
			t.Errorf("%d bytes of the host's memory are still in use", n-host)
		}
		if err := d.Resources().Close(); err != nil {
			t.Error(err)
		}
		if n := d.Pool().Stats().InUse; n != 0 {
			t.Errorf("%d bytes of the device's memory are still in use", n)
		}
	})
	return d
}

// substitutes are kernels for nodes, by name, that replace those of their ops.
type substitutes map[string]any

func (s substitutes) source(_ string, n *graph.Node, _ kernels.Device, _ bool, make func() (any, error)) (any, bool, error) {
	if k, ok := s[n.Name]; ok {
		return k, false, nil
	}
	k, err := make()
	return k, false, err
}

// program compiles the text of a graph for d, and closes the program when the test ends.
func program(t testing.TB, d *CPU, text string, s substitutes) *Program {
	t.Helper()
	p, err := Compile(graphOf(t, text), d, CompileOptions{Kernels: s.source})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// results receives what a run fetches.
type results struct {
	mu   sync.Mutex
	got  map[int]int64 // the first elements of int64 tensors
	dead map[int]bool
}

func newResults() *results { return &results{got: map[int]int64{}, dead: map[int]bool{}} }

func (r *results) Fetch(index int, t *tensor.Tensor, dead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dead {
		r.dead[index] = true
		return
	}
	switch t.DType() {
	case tensor.Int64:
		r.got[index] = tensor.Of[int64](t)[0]
	case tensor.Int32:
		r.got[index] = int64(tensor.Of[int32](t)[0])
	case tensor.Bool:
		if tensor.Of[bool](t)[0] {
			r.got[index] = 1
		} else {
			r.got[index] = 0
		}
	}
	t.Release()
}

// newTestStep makes a step that fetches into r.
func newTestStep(r kernels.Fetches, feeds ...*tensor.Tensor) *kernels.Step {
	fed := Feeds(feeds)
	return &kernels.Step{ID: 1, Feeds: &fed, Fetches: r, Rendezvous: NewRendezvous(nil, nil),
		Cancellation: &kernels.Cancellation{}, Container: "__per_step_1"}
}

// runner is a kernels.Runner made of functions; without one, it does what a step without a runner does.
type runner struct {
	flush   func()
	yield   func() bool
	proceed func(work func())
}

func (r *runner) Flush() {
	if r.flush != nil {
		r.flush()
	}
}

func (r *runner) Yield() bool { return r.yield != nil && r.yield() }

func (r *runner) Continue(work func()) {
	if r.proceed == nil {
		go work()
		return
	}
	r.proceed(work)
}

func (r *runner) Room(string, int, func()) bool { return true }

// tracer is a kernels.Tracer made of a function.
type tracer func(n *graph.Node, outputs []kernels.Value)

func (f tracer) Ran(n *graph.Node, _ string, outputs []kernels.Value, _, _ time.Time) { f(n, outputs) }

// outcome is the result of a run.
type outcome struct {
	*results
	err error
}

// start begins a run and returns a channel for its outcome.
func start(p *Program, step *kernels.Step) <-chan outcome {
	ended := make(chan outcome, 1)
	r, _ := step.Fetches.(*results)
	p.Run(step, func(err error) { ended <- outcome{r, err} })
	return ended
}

// runText runs the text of a graph to completion.
func runText(t testing.TB, text string, s substitutes, feeds ...*tensor.Tensor) outcome {
	t.Helper()
	d := newTestDevice(t)
	p := program(t, d, text, s)
	ended := start(p, newTestStep(newResults(), feeds...))
	return <-ended
}

// wantError fails the test unless err has the code and its message contains all parts.
func wantError(t testing.TB, err error, code status.Code, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %v", code)
	}
	if status.CodeOf(err) != code {
		t.Errorf("%v: %v; want %v", status.CodeOf(err), err, code)
	}
	for _, part := range parts {
		if !contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
