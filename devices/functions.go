package devices

import (
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"log/slog"
	"sync"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// maxDepth bounds the nesting of function calls, so that endless recursion is an error.
const maxDepth = 500

// Functions compiles and runs the functions of a library on one device. Each instantiation (name
// and attribute values) is compiled once. It is safe for concurrent use.
type Functions struct {
	library  *graph.Library
	device   kernels.Device
	session  string
	optimize bool

	mu    sync.Mutex
	ready map[string]*function
}

var _ kernels.Functions = (*Functions)(nil)

// NewFunctions makes the functions of a library callable on a device, for kernels of a session. optimize is that of
// CompileOptions, for their bodies.
func NewFunctions(library *graph.Library, device kernels.Device, session string, optimize bool) *Functions {
	return &Functions{library: library, device: device, session: session, optimize: optimize, ready: map[string]*function{}}
}

// library is what Functions are of, as kernels hold on to it.
type library struct {
	graph    *graph.Library
	device   kernels.Device
	optimize bool
}

// Library is the functions' library and device.
func (f *Functions) Library() kernels.Library { return library{f.library, f.device, f.optimize} }

// Open makes Functions that belong to no session.
func (l library) Open() kernels.OpenLibrary {
	return NewFunctions(l.graph, l.device, "", l.optimize)
}

// Find looks at each function once, however often it is called.
func (l library) Find(fn *graph.FunctionRef, holds func(*graph.Node) bool) (*graph.Node, error) {
	return l.find(fn, holds, map[string]bool{})
}

func (l library) find(fn *graph.FunctionRef, holds func(*graph.Node) bool, seen map[string]bool) (*graph.Node, error) {
	id := instanceID(fn)
	if seen[id] {
		return nil, nil
	}
	seen[id] = true
	body, err := l.graph.Instantiate(fn.Name, fn.Attrs)
	if err != nil {
		return nil, err
	}
	for _, n := range body.Nodes {
		if holds(n) {
			return n, nil
		}
		called := n.Attrs.Funcs()
		if n.Def == nil || l.graph.Functions[n.Op] != nil {
			called = append(called, &graph.FunctionRef{Name: n.Op, Attrs: n.Attrs})
		}
		for _, f := range called {
			if found, err := l.find(f, holds, seen); found != nil || err != nil {
				return found, err
			}
		}
	}
	return nil, nil
}

// Defs goes through the bodies as they were declared.
func (l library) Defs(fn *graph.FunctionRef, defs map[string]*functionpb.FunctionDef) error {
	f := l.graph.Functions[fn.Name]
	if f == nil {
		return status.Errorf(status.NotFound, "Function %s is not defined.", fn.Name)
	}
	if defs[fn.Name] != nil {
		return nil
	}
	defs[fn.Name] = f
	for _, n := range f.NodeDef {
		called := graph.Attrs(n.Attr).Funcs()
		if l.graph.Functions[n.Op] != nil {
			called = append(called, &graph.FunctionRef{Name: n.Op})
		}
		for _, c := range called {
			if err := l.Defs(c, defs); err != nil {
				return err
			}
		}
	}
	return nil
}

// function is one instantiation. It is compiled at its first call: a body may call itself.
type function struct {
	name    string
	body    *graph.FunctionGraph
	once    sync.Once
	program *Program
	err     error
	owner   *Functions
	calls   sync.Pool // of *call
}

// Instantiate prepares a function for attribute values. An unknown function is NOT_FOUND.
func (f *Functions) Instantiate(ref *graph.FunctionRef) (kernels.Function, error) {
	id := instanceID(ref)
	f.mu.Lock()
	defer f.mu.Unlock()
	if fn := f.ready[id]; fn != nil {
		return fn, nil
	}
	body, err := f.library.Instantiate(ref.Name, ref.Attrs)
	if err != nil {
		return nil, err
	}
	fn := &function{name: ref.Name, body: body, owner: f}
	f.ready[id] = fn
	return fn, nil
}

// Close closes the programs of the functions. None of them must run any more, nor be called again.
func (f *Functions) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fn := range f.ready {
		if fn.program != nil {
			fn.program.Close()
		}
	}
	clear(f.ready)
}

// instanceID is the function's name with its attribute values, in a fixed order.
func instanceID(ref *graph.FunctionRef) string {
	if len(ref.Attrs) == 0 {
		return ref.Name
	}
	id := []byte(ref.Name)
	for _, name := range sortedKeys(ref.Attrs) {
		id = append(append(id, 0), name...)
		id, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(id, 0), ref.Attrs[name])
	}
	return string(id)
}

// NumArgs is the number of arguments.
func (fn *function) NumArgs() int { return len(fn.body.Args) }

// NumResults is the number of results.
func (fn *function) NumResults() int { return len(fn.body.Rets) }

func (fn *function) compile() {
	fn.program, fn.err = Compile(fn.body.Graph, fn.owner.device, CompileOptions{Session: fn.owner.session, Functions: fn.owner, Optimize: fn.owner.optimize, Function: fn.name})
	if fn.err != nil {
		fn.err = status.Errorf(status.CodeOf(fn.err), "{{function_node %s}} %s", fn.name, fn.err.Error())
	}
}

// Call runs the function within the caller's step. It takes over args, the slice included.
func (fn *function) Call(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
	fn.once.Do(fn.compile)
	err := fn.err
	switch {
	case err != nil:
	case len(args) != len(fn.body.Args):
		err = status.InvalidArgumentf("Function %s takes %d arguments, not %d", fn.name, len(fn.body.Args), len(args))
	case step.Depth >= maxDepth:
		err = status.Errorf(status.ResourceExhausted, "Function %s: calls are nested more than %d deep", fn.name, maxDepth)
	}
	if err != nil {
		arguments(args).release()
		done(nil, err)
		return
	}
	c, _ := fn.calls.Get().(*call)
	if c == nil {
		c = &call{fn: fn}
		c.ended = c.end
	}
	c.args, c.done, c.results = args, done, c.values(len(fn.body.Rets))
	c.step = *step
	c.step.Feeds, c.step.Fetches = &c.args, c
	c.step.Depth++
	fn.program.Run(&c.step, c.ended)
}

// arguments are the values that a call hands over: each goes to its _Arg node, which then holds
// the only reference and may be overwritten.
type arguments []kernels.Value

// take hands over an argument, once; nil for one that is not there.
func (a arguments) take(index int) *tensor.Tensor {
	if index < 0 || index >= len(a) {
		return nil
	}
	t := a[index].Tensor
	a[index] = kernels.Value{}
	return t
}

// Feed hands over an argument, once.
func (a arguments) Feed(index int, done func(*tensor.Tensor, error)) {
	t := a.take(index)
	if t == nil {
		done(nil, status.Internalf("A function's argument %d has no value", index))
		return
	}
	done(t, nil)
}

// release gives up the arguments that no node took.
func (a arguments) release() {
	for i := range a {
		a[i].Release()
		a[i] = kernels.Value{}
	}
}

// call is one call under way. Its memory is used again.
type call struct {
	fn    *function
	step  kernels.Step
	args  arguments
	done  func([]kernels.Value, error)
	ended func(error)     // end, made once
	spare []kernels.Value // of the arguments before

	mu      sync.Mutex
	results []kernels.Value
}

// values makes room for n empty values: the results of one call lie where the arguments of the one before did.
func (c *call) values(n int) []kernels.Value {
	room := c.spare
	c.spare = nil
	if cap(room) < n {
		return make([]kernels.Value, n)
	}
	room = room[:n]
	clear(room)
	return room
}

// end hands the results on when the function has run.
func (c *call) end(err error) {
	c.args.release()
	c.spare = c.args
	if err == nil {
		err = c.dead()
	}
	done, results, log := c.done, c.results, c.step.Log
	fn := c.fn
	c.args, c.done, c.results, c.step = nil, nil, nil, kernels.Step{}
	fn.calls.Put(c)
	if err != nil {
		for _, v := range results {
			v.Release()
		}
		results = nil
	}
	fn.tell(log, done, results, err)
}

// tell reports the end of a call. Where the caller panics at that it is told again, of the panic, so that its kernel
// ends.
func (fn *function) tell(log *slog.Logger, done func([]kernels.Value, error), results []kernels.Value, err error) {
	defer contain.Recover(log, "The caller of function "+fn.name, func(err error) { done(nil, err) })
	done(results, err)
}

// Fetch takes a result.
func (c *call) Fetch(index int, t *tensor.Tensor, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !dead && index >= 0 && index < len(c.results) {
		c.results[index] = kernels.Value{Tensor: t}
	} else if t != nil {
		t.Release()
	}
}

// dead is the error of a result whose branch was not taken.
func (c *call) dead() error {
	for i, v := range c.results {
		if v.Tensor == nil {
			return status.Internalf("The result %d of function %s has no value: its branch was not taken", i, c.fn.name)
		}
	}
	return nil
}
