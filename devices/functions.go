package devices

import (
	"sync"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// maxDepth bounds the nesting of function calls, so that endless recursion is an error.
const maxDepth = 500

// Functions compiles and runs the functions of a library on one device. Each instantiation (name
// and attribute values) is compiled once. It is safe for concurrent use.
type Functions struct {
	library *graph.Library
	device  kernels.Device
	session string

	mu    sync.Mutex
	ready map[string]*function
}

var _ kernels.Functions = (*Functions)(nil)

// NewFunctions makes the functions of a library callable on a device, for kernels of a session.
func NewFunctions(library *graph.Library, device kernels.Device, session string) *Functions {
	return &Functions{library: library, device: device, session: session, ready: map[string]*function{}}
}

// function is one instantiation. It is compiled at its first call: a body may call itself.
type function struct {
	name    string
	body    *graph.FunctionGraph
	once    sync.Once
	program *Program
	err     error
	owner   *Functions
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
	fn.program, fn.err = Compile(fn.body.Graph, fn.owner.device, CompileOptions{Session: fn.owner.session, Functions: fn.owner})
	if fn.err != nil {
		fn.err = status.Errorf(status.CodeOf(fn.err), "{{function_node %s}} %s", fn.name, fn.err.Error())
	}
}

// Call runs the function within the caller's step.
func (fn *function) Call(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
	feeds := make(arguments, len(args))
	for i, a := range args {
		feeds[i] = a.Tensor
	}
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
		feeds.release()
		done(nil, err)
		return
	}
	c := &call{step: *step, results: make([]kernels.Value, len(fn.body.Rets))}
	c.step.Feeds, c.step.Fetches = feeds, c
	c.step.Depth++
	fn.program.Run(&c.step, func(err error) {
		feeds.release()
		if err == nil {
			err = c.dead(fn.name)
		}
		if err != nil {
			for _, v := range c.results {
				v.Release()
			}
			done(nil, err)
			return
		}
		done(c.results, nil)
	})
}

// arguments are the tensors that a call hands over: each goes to its _Arg node, which then holds
// the only reference and may be overwritten.
type arguments []*tensor.Tensor

// Feed hands over an argument, once.
func (a arguments) Feed(index int, done func(*tensor.Tensor, error)) {
	if index < 0 || index >= len(a) || a[index] == nil {
		done(nil, status.Internalf("A function's argument %d has no value", index))
		return
	}
	t := a[index]
	a[index] = nil
	done(t, nil)
}

// release gives up the arguments that no node took.
func (a arguments) release() {
	for _, t := range a {
		if t != nil {
			t.Release()
		}
	}
}

// call collects the results of one call.
type call struct {
	step    kernels.Step
	mu      sync.Mutex
	results []kernels.Value
}

// Fetch takes a result.
func (c *call) Fetch(index int, t *tensor.Tensor, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !dead && index < len(c.results) {
		c.results[index] = kernels.Value{Tensor: t}
	} else if t != nil {
		t.Release()
	}
}

// dead is the error of a result whose branch was not taken.
func (c *call) dead(name string) error {
	for i, v := range c.results {
		if v.Tensor == nil {
			return status.Internalf("The result %d of function %s has no value: its branch was not taken", i, name)
		}
	}
	return nil
}
