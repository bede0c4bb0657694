package kernelstest

import (
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Expect compares outputs with the wanted ones, exactly, and releases them.
func Expect(t *testing.T, got []kernels.Value, want ...*tensor.Tensor) {
	t.Helper()
	for i, w := range want {
		if diff := Diff(got[i].Tensor, w, 0); diff != "" {
			t.Errorf("output %d: %s", i, diff)
		}
	}
	for _, v := range got {
		v.Release()
	}
}

// Fails runs an op that must fail with code and a message that contains text.
func Fails(t *testing.T, d *Device, code status.Code, text string, op Op, inputs ...any) {
	t.Helper()
	_, err := d.Try(op, inputs...)
	if status.CodeOf(err) != code || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v: %v, want %v: %s", op.Type, status.CodeOf(err), err, code, text)
	}
}

// Result is the outcome of an op begun with Start.
type Result struct {
	Out []kernels.Value
	Err error
}

// Start begins an op that may wait and returns the channel for its result.
func Start(t *testing.T, d *Device, op Op, inputs ...any) <-chan Result {
	t.Helper()
	k, err := d.Kernel(op, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	c := make(chan Result, 1)
	k.Start(Values(inputs...), func(out []kernels.Value, err error) { c <- Result{out, err} })
	return c
}

// Library holds functions written in Go, with one argument and one result. They own their arguments. A function whose name here ends in
// Captures, which it is not called by, has a captured tensor as its second argument.
type Library map[string]func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error))

// Instantiate returns the function with the given name.
func (l Library) Instantiate(ref *graph.FunctionRef) (kernels.Function, error) {
	if f, ok := l[ref.Name]; ok {
		return goFunction{f, 1}, nil
	}
	if f, ok := l[ref.Name+Captures]; ok {
		return goFunction{f, 2}, nil
	}
	return nil, status.Errorf(status.NotFound, "Function %s is not defined.", ref.Name)
}

// Captures ends the names of functions of a Library that capture a tensor.
const Captures = " with a captured tensor"

// Library returns the library itself.
func (l Library) Library() kernels.Library { return &goLibrary{l} }

type goLibrary struct{ of Library }

func (l *goLibrary) Instantiate(ref *graph.FunctionRef) (kernels.Function, error) {
	return l.of.Instantiate(ref)
}

// InstantiateWith is Instantiate: Go functions run on one device.
func (l *goLibrary) InstantiateWith(ref *graph.FunctionRef, _ []*tensor.Tensor) (kernels.Function, error) {
	return l.of.Instantiate(ref)
}

func (l *goLibrary) Library() kernels.Library { return l }

func (l *goLibrary) Open() kernels.OpenLibrary { return l }

func (l *goLibrary) Find(*graph.FunctionRef, func(*graph.Node) bool) (*graph.Node, error) {
	return nil, nil
}

// Defs finds nothing: Go functions have no definition.
func (l *goLibrary) Defs(*graph.FunctionRef, map[string]*functionpb.FunctionDef) error { return nil }

// With adds nothing, for the same reason.
func (l *goLibrary) With(*functionpb.FunctionDefLibrary) (kernels.Library, error) { return l, nil }

func (l *goLibrary) Close() {}

type goFunction struct {
	run  func(*kernels.Step, []kernels.Value, func([]kernels.Value, error))
	args int
}

func (f goFunction) NumArgs() int { return f.args }

func (goFunction) NumResults() int { return 1 }

func (f goFunction) Call(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
	f.run(step, args, done)
}
