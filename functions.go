package troupe

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// Function is a function of the program that clients' graphs call by name on the program's own servers:
//
//	server, err := troupe.NewServer(ctx, cluster, troupe.WithFunction("double", func(_ context.Context, c *troupe.FunctionCall) ([]*tensor.Tensor, error) {
//		...
//	}))
//
// A graph calls it with the ops PyFunc and PyFuncStateless, whose token is the name: op.PyFunc in Go, and in Python
// tf.raw_ops.PyFunc(input=[x], token="double", Tout=[tf.float32]). The node has to be on one of the program's own tasks: if its device names no
// task, it goes to the master's own task if that has functions, and otherwise to the first task of the cluster that has some. Whoever may run
// graphs on the server may call its functions; a policy can deny the ops.
//
// The error becomes the step's, with its code. A panic is an INTERNAL error of the step. ctx ends when the step ends or the server stops. A
// function that still runs then delays Stop until Stop's own context ends. Functions are called concurrently.
type Function func(ctx context.Context, call *FunctionCall) ([]*tensor.Tensor, error)

// FunctionCall is a call of a Function.
type FunctionCall struct {
	// Name is the name by which the graph calls the function.
	Name string
	// Eager reports whether the node is an EagerPyFunc, which in a Python program takes and returns eager tensors.
	Eager bool
	// Inputs are the node's inputs. They are read-only, and valid until the function returns.
	Inputs []*tensor.Tensor
	// Outputs are the types of the results that the node declares. A result of another type, or another number of results, is an
	// INVALID_ARGUMENT error of the step.
	Outputs []tensor.DType

	pool *tensor.Pool
}

// New returns a tensor for a result in the memory of the node's device, where it counts against the step's limits. Its content is
// undefined. New returns RESOURCE_EXHAUSTED if it does not fit. In a FunctionCall that a test has made, the memory is tensor.Host.
func (c *FunctionCall) New(dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	return tensor.New(cmp.Or(c.pool, tensor.Host), dtype, shape)
}

// WithFunction registers a function of the program for graphs on the server. A second option of the same name replaces the first.
func WithFunction(name string, f Function) Option {
	return option("WithFunction", func(o *options) {
		if o.functions == nil {
			o.functions = map[string]Function{}
		}
		o.functions[name] = f
	})
}

// WithFunctions registers a function that handles calls of all names that WithFunction has not registered.
func WithFunctions(f Function) Option {
	return option("WithFunctions", func(o *options) { o.otherFunctions = f })
}

// maxFunctionCalls bounds the calls of functions in flight on a server, including those whose steps have given up on them.
const maxFunctionCalls = 4096

// functions are the functions of a server's program.
type functions struct {
	byName map[string]Function
	other  Function // nil if there is none
	log    *slog.Logger
	life   context.Context
	die    context.CancelFunc

	mu      sync.Mutex
	running map[string]int // by name
	calls   int
	stopped bool
	work    sync.WaitGroup
}

var _ kernels.Program = (*functions)(nil)

// newFunctions returns the functions of a server, or nil if it has none.
func newFunctions(o *options) *functions {
	if len(o.functions) == 0 && o.otherFunctions == nil {
		return nil
	}
	f := &functions{byName: o.functions, other: o.otherFunctions, log: o.log, running: map[string]int{}}
	f.life, f.die = context.WithCancel(context.Background())
	return f
}

// program returns the functions for the node: nil if there are none.
func (p *functions) program() kernels.Program {
	if p == nil {
		return nil // not a nil *functions
	}
	return p
}

// Call runs a function on a goroutine of its own.
func (p *functions) Call(c kernels.ProgramCall, done func([]*tensor.Tensor, error)) (cancel func()) {
	f := p.byName[c.Name]
	if f == nil {
		f = p.other
	}
	ctx, cancel := context.WithCancel(p.life)
	finish := func(results []*tensor.Tensor, err error) {
		cancel()
		for _, t := range c.Inputs {
			t.Release()
		}
		done(results, err)
	}
	if err := p.begin(c.Name, f); err != nil {
		finish(nil, err)
		return cancel
	}
	var once sync.Once
	end := func(results []*tensor.Tensor, err error) {
		once.Do(func() {
			p.end(c.Name)
			finish(results, err)
		})
	}
	p.work.Go(contain.Func(p.log, "The function "+c.Name, func() {
		results, err := f(ctx, &FunctionCall{Name: c.Name, Eager: c.Eager, Inputs: c.Inputs, Outputs: c.Outputs, pool: c.Pool})
		if err != nil {
			for _, t := range results {
				t.Release()
			}
			results, err = nil, status.From(err)
		}
		end(results, err)
	}, func(err error) { end(nil, err) }))
	return cancel
}

// begin counts a call, or returns why it is refused.
func (p *functions) begin(name string, f Function) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case f == nil:
		return status.InvalidArgumentf("the program that owns the server has no function %q; it has %s", name, strings.Join(slices.Sorted(maps.Keys(p.byName)), ", "))
	case p.stopped:
		return status.Errorf(status.Cancelled, "the server is stopping")
	case p.calls >= maxFunctionCalls:
		return status.Errorf(status.ResourceExhausted, "%d calls of the program's functions are under way, which is the limit", maxFunctionCalls)
	}
	p.calls++
	p.running[name]++
	return nil
}

func (p *functions) end(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	if p.running[name]--; p.running[name] == 0 {
		delete(p.running, name)
	}
}

// stop cancels the calls in flight and waits, until ctx ends, for them to end.
func (p *functions) stop(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.die()
	ended := make(chan struct{})
	go func() {
		p.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == 0 { // ctx had ended before
		return nil
	}
	return status.Errorf(status.DeadlineExceeded, "%d calls of the program's functions have not ended, of %s: they must return when their context ends",
		p.calls, strings.Join(slices.Sorted(maps.Keys(p.running)), ", "))
}
