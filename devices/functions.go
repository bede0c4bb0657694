package devices

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// maxDepth bounds the nesting of function calls; endless recursion becomes an error.
const maxDepth = 500

// maxFound bounds the function instances that Find visits.
const maxFound = 1 << 14

func nestedTooDeep(name string) error {
	return status.Errorf(status.ResourceExhausted, "Function %s: calls are nested more than %d deep", name, maxDepth)
}

// Functions compiles and runs the functions of a library on one device. Each instantiation (name and attribute values) is compiled once,
// but for functions whose kernels keep state: these belong to the node that calls them (callSite). It is safe for concurrent use.
type Functions struct {
	library  *graph.Library
	device   kernels.Device
	session  string
	optimize bool
	spreader Spreader     // or nil
	sites    atomic.Int64 // instantiations that belong to one call

	mu       sync.Mutex
	ready    map[string]*function
	stateful map[string]bool // by instantiation, whether its kernels keep state
}

var _ kernels.Functions = (*Functions)(nil)

// Spreader runs functions that have captured resources of other devices than their caller's.
type Spreader interface {
	// Spread returns a function that is called on a device, with NumArgs and NumResults of fn. Its nodes run where the resources are that they use.
	// defs has the definitions of ref and of all functions that it calls.
	Spread(device string, ref *graph.FunctionRef, fn kernels.Function, defs map[string]*functionpb.FunctionDef) kernels.Function
}

// NewFunctions makes the functions of a library callable on a device, for kernels of a session. optimize is CompileOptions.Optimize for
// their bodies. Without a Spreader, functions run on the device alone.
func NewFunctions(library *graph.Library, device kernels.Device, session string, optimize bool, spreader Spreader) *Functions {
	return &Functions{library: library, device: device, session: session, optimize: optimize, spreader: spreader, ready: map[string]*function{}, stateful: map[string]bool{}}
}

// library is the part of a Functions that kernels retain.
type library struct {
	graph    *graph.Library
	device   kernels.Device
	optimize bool
	spreader Spreader
}

// Library returns the functions' library and device.
func (f *Functions) Library() kernels.Library {
	return library{f.library, f.device, f.optimize, f.spreader}
}

// Open makes Functions that do not belong to a session.
func (l library) Open() kernels.OpenLibrary {
	return NewFunctions(l.graph, l.device, "", l.optimize, l.spreader)
}

// With merges the libraries. One that has nothing new is l itself.
func (l library) With(more *functionpb.FunctionDefLibrary) (kernels.Library, error) {
	merged, err := l.graph.Merge(more)
	if err != nil {
		return nil, err
	}
	l.graph = merged
	return l, nil
}

// Find visits each function once, however often it is called.
func (l library) Find(fn *graph.FunctionRef, holds func(*graph.Node) bool) (*graph.Node, error) {
	// A client's functions may call one another in a chain of any length. A function that calls itself with growing attributes is another
	// instance each time.
	type reached struct {
		fn    *graph.FunctionRef
		depth int
	}
	from, seen := fn.Name, map[string]bool{}
	for left := []reached{{fn, 1}}; len(left) > 0; {
		at := left[0]
		fn, left = at.fn, left[1:]
		if at.depth > maxDepth {
			return nil, nestedTooDeep(fn.Name)
		}
		id := instanceID(fn)
		if seen[id] {
			continue
		}
		if len(seen) == maxFound {
			return nil, status.Errorf(status.ResourceExhausted, "Function %s calls more than %d functions, or the same with other attributes", from, maxFound)
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
			for _, f := range n.Attrs.Funcs() {
				left = append(left, reached{f, at.depth + 1})
			}
			if n.Def == nil || l.graph.Functions[n.Op] != nil {
				left = append(left, reached{&graph.FunctionRef{Name: n.Op, Attrs: n.Attrs}, at.depth + 1})
			}
		}
	}
	return nil, nil
}

// Defs visits the bodies as they were declared.
func (l library) Defs(fn *graph.FunctionRef, defs map[string]*functionpb.FunctionDef) error {
	for left := []string{fn.Name}; len(left) > 0; {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		f := l.graph.Functions[name]
		if f == nil {
			return status.Errorf(status.NotFound, "Function %s is not defined.", name)
		}
		if defs[name] != nil {
			continue
		}
		defs[name] = f
		for _, n := range f.NodeDef {
			for _, called := range graph.Attrs(n.Attr).Funcs() {
				left = append(left, called.Name)
			}
			if l.graph.Functions[n.Op] != nil {
				left = append(left, n.Op)
			}
		}
	}
	return nil
}

// function is one instantiation. It is compiled at its first call, since a body may call itself.
type function struct {
	id      string // instanceID
	name    string
	body    *graph.FunctionGraph
	once    sync.Once
	program *Program
	err     error
	owner   *Functions
	site    *callSite // that it belongs to; nil if all calls share it
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
	fn, err := f.instance(id, ref)
	if err != nil {
		return nil, err
	}
	f.ready[id] = fn
	return fn, nil
}

// InstantiateWith has the Spreader run a function that has captured resources of other devices.
func (f *Functions) InstantiateWith(ref *graph.FunctionRef, captured []*tensor.Tensor) (kernels.Function, error) {
	fn, err := f.Instantiate(ref)
	elsewhere := func(t *tensor.Tensor) bool { return kernels.IsElsewhere(t, f.device.Name()) }
	if err != nil || f.spreader == nil || !slices.ContainsFunc(captured, elsewhere) {
		return fn, err
	}
	defs := map[string]*functionpb.FunctionDef{}
	if err := f.Library().Defs(ref, defs); err != nil {
		return nil, err
	}
	return f.spreader.Spread(f.device.Name(), ref, fn, defs), nil
}

// instance returns a new instantiation of a function.
func (f *Functions) instance(id string, ref *graph.FunctionRef) (*function, error) {
	body, err := f.library.Instantiate(ref.Name, ref.Attrs)
	if err != nil {
		return nil, err
	}
	return &function{id: id, name: ref.Name, body: body, owner: f}, nil
}

// keepsState reports whether a kernel of the function, or of one that it calls, keeps state between calls. It is true if that cannot be
// found out.
func (f *Functions) keepsState(id string, ref *graph.FunctionRef) bool {
	f.mu.Lock()
	keeps, known := f.stateful[id]
	f.mu.Unlock()
	if known {
		return keeps
	}
	n, err := f.Library().Find(ref, hasState)
	keeps = n != nil || err != nil
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stateful[id] = keeps
	return keeps
}

// Close closes the programs of the functions. They must not be running, nor be called again.
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

// instanceID returns the function's name with its attribute values, in a fixed order.
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

// NumArgs returns the number of arguments.
func (fn *function) NumArgs() int { return len(fn.body.Args) }

// NumResults returns the number of results.
func (fn *function) NumResults() int { return len(fn.body.Rets) }

func (fn *function) compile() {
	opts := CompileOptions{Session: fn.owner.session, Functions: fn.owner, Optimize: fn.owner.optimize, Function: fn.name, function: fn}
	if s := fn.site; s != nil && s.inlined(fn.name) {
		opts.Kernels, opts.Path = s.kernels, s.pathOf(fn.name)
	} else {
		opts.Alone = true
	}
	fn.program, fn.err = Compile(fn.body.Graph, fn.owner.device, opts)
	if fn.err != nil {
		fn.err = status.Errorf(status.CodeOf(fn.err), "{{function_node %s}} %s", fn.name, fn.err.Error())
	}
}

// Call runs the function within the caller's step. It takes over args, including the slice.
func (fn *function) Call(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
	fn.once.Do(fn.compile)
	err := fn.err
	switch {
	case err != nil:
	case len(args) != len(fn.body.Args):
		err = status.InvalidArgumentf("Function %s takes %d arguments, not %d", fn.name, len(fn.body.Args), len(args))
	case step.Depth >= maxDepth:
		err = nestedTooDeep(fn.name)
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

// arguments are the values that a call passes on: each moves to its _Arg node, which then holds the only reference and may be overwritten.
type arguments []kernels.Value

// take passes on an argument, once; nil if it does not exist.
func (a arguments) take(index int) *tensor.Tensor {
	if index < 0 || index >= len(a) {
		return nil
	}
	t := a[index].Tensor
	a[index] = kernels.Value{}
	return t
}

// Feed passes on an argument, once.
func (a arguments) Feed(index int, done func(*tensor.Tensor, error)) {
	t := a.take(index)
	if t == nil {
		done(nil, status.Internalf("A function's argument %d has no value", index))
		return
	}
	done(t, nil)
}

// release releases the arguments that no node has taken.
func (a arguments) release() {
	for i := range a {
		a[i].Release()
		a[i] = kernels.Value{}
	}
}

// call is a call in flight. Its memory is reused.
type call struct {
	fn    *function
	step  kernels.Step
	args  arguments
	done  func([]kernels.Value, error)
	ended func(error)     // end, made once
	spare []kernels.Value // memory of earlier arguments

	mu      sync.Mutex
	results []kernels.Value
}

// values returns n empty values. The results of one call reuse the memory of the arguments of the one before.
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

// end delivers the results when the function has run.
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
	fn.deliver(log, done, results, err)
}

// deliver reports the end of a call. If the caller's callback panics, it is called again with the panic as the error, so that its kernel ends.
func (fn *function) deliver(log *slog.Logger, done func([]kernels.Value, error), results []kernels.Value, err error) {
	defer contain.Recover(log, "The caller of function "+fn.name, func(err error) { done(nil, err) })
	done(results, err)
}

// Fetch accepts a result.
func (c *call) Fetch(index int, t *tensor.Tensor, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !dead && index >= 0 && index < len(c.results) {
		c.results[index] = kernels.Value{Tensor: t}
	} else if t != nil {
		t.Release()
	}
}

// dead returns the error for a result whose branch was not taken.
func (c *call) dead() error {
	for i, v := range c.results {
		if v.Tensor == nil {
			return status.Internalf("The result %d of function %s has no value: its branch was not taken", i, c.fn.name)
		}
	}
	return nil
}
