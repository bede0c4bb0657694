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

// Expect compares outputs with what they must be, exactly, and releases them.
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

// Fails runs an op that must fail with a code and a message that holds text.
func Fails(t *testing.T, d *Device, code status.Code, text string, op Op, inputs ...any) {
	t.Helper()
	_, err := d.Try(op, inputs...)
	if status.CodeOf(err) != code || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v: %v, want %v: %s", op.Type, status.CodeOf(err), err, code, text)
	}
}

// Result is how an op ended that Start began.
type Result struct {
	Out []kernels.Value
	Err error
}

// Start begins an op that may have to wait and gives the channel of its end.
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

// Library are functions written in Go, of one argument and one result. They own their arguments.
type Library map[string]func(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error))

// Instantiate gives the function of a name.
func (l Library) Instantiate(ref *graph.FunctionRef) (kernels.Function, error) {
	f, ok := l[ref.Name]
	if !ok {
		return nil, status.Errorf(status.NotFound, "Function %s is not defined.", ref.Name)
	}
	return goFunction(f), nil
}

// Library is the library itself.
func (l Library) Library() kernels.Library { return &goLibrary{l} }

type goLibrary struct{ of Library }

func (l *goLibrary) Instantiate(ref *graph.FunctionRef) (kernels.Function, error) {
	return l.of.Instantiate(ref)
}

func (l *goLibrary) Library() kernels.Library { return l }

func (l *goLibrary) Open() kernels.OpenLibrary { return l }

func (l *goLibrary) Find(*graph.FunctionRef, func(*graph.Node) bool) (*graph.Node, error) {
	return nil, nil
}

// Defs finds nothing: Go functions have no definition.
func (l *goLibrary) Defs(*graph.FunctionRef, map[string]*functionpb.FunctionDef) error { return nil }

func (l *goLibrary) Close() {}

type goFunction func(*kernels.Step, []kernels.Value, func([]kernels.Value, error))

func (goFunction) NumArgs() int { return 1 }

func (goFunction) NumResults() int { return 1 }

func (f goFunction) Call(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
	f(step, args, done)
}
