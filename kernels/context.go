package kernels

import (
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
)

// Value is what an edge carries: a tensor, or a reference to a variable.
type Value struct {
	Tensor *tensor.Tensor
	Ref    *containers.Variable
}

// Release gives up the value's reference to its tensor.
func (v Value) Release() {
	if v.Tensor != nil {
		v.Tensor.Release()
	}
}

// Tag tells which iteration of which loop an execution belongs to. The zero Tag is outside of
// all loops. Frame is a number that all parts of a step agree on without talking, made from the
// names and iterations of the enclosing frames.
type Tag struct {
	Frame uint64
	Iter  int64
}

// Context is one execution of a kernel. The executor owns it and reuses it after a Kernel
// returns, or after an AsyncKernel has called done.
type Context struct {
	// Node is the node that runs, Device where it runs, Step the run that it is part of.
	Node   *graph.Node
	Device Device
	Step   *Step
	// Tag is the iteration that this execution belongs to.
	Tag Tag
	// Dead tells that an input did not come because its branch was not taken. Only sends and
	// receives see it; other kernels are not run then.
	Dead bool
	// Inputs are borrowed: the executor releases them after the kernel, except for those that the
	// kernel took over with Forward or Take. Outputs belong to the kernel until it ends, then to
	// the executor. An output that is left nil is a missing output, legal for Switch and Merge alone.
	Inputs, Outputs []Value
	// HostOutputs tells which outputs lie in host memory on a device that has memory of its own, as
	// MemoryTypes does.
	HostOutputs []bool
	// Caller, if not nil, is told what an asynchronous kernel waits for.
	Caller Caller
}

// NumInputs is the number of data inputs.
func (c *Context) NumInputs() int { return len(c.Inputs) }

// Input is the tensor at input i, borrowed for the call. References have been read already
// unless the op takes a reference.
func (c *Context) Input(i int) *tensor.Tensor { return c.Inputs[i].Tensor }

// Ref is the variable that the reference at input i refers to.
func (c *Context) Ref(i int) *containers.Variable { return c.Inputs[i].Ref }

// SetOutput hands over the caller's reference to t as output i.
func (c *Context) SetOutput(i int, t *tensor.Tensor) { c.Outputs[i] = Value{Tensor: t} }

// SetRef makes output i a reference to v.
func (c *Context) SetRef(i int, v *containers.Variable) { c.Outputs[i] = Value{Ref: v} }

// Pass makes input i output o, as it is (a reference stays one).
func (c *Context) Pass(i, o int) {
	v := c.Inputs[i]
	c.Inputs[i] = Value{}
	c.Outputs[o] = v
}

// Take gives the caller the kernel's reference to the tensor at input i; the executor will not
// release it any more.
func (c *Context) Take(i int) *tensor.Tensor {
	t := c.Inputs[i].Tensor
	c.Inputs[i].Tensor = nil
	return t
}

// Memory is where output o belongs.
func (c *Context) Memory(o int) tensor.Memory {
	if c.HostOutputs != nil && c.HostOutputs[o] {
		return c.Device.Pool()
	}
	return c.Device.Memory()
}

// Allocate makes output o a new tensor with undefined content, in the memory that it belongs to,
// and returns it for filling.
func (c *Context) Allocate(o int, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	t, err := c.Memory(o).New(dtype, shape)
	if err != nil {
		return nil, err
	}
	c.Outputs[o] = Value{Tensor: t}
	return t, nil
}

// Forward makes output o the tensor at input i when nobody else can see that tensor and it has
// the dtype, shape and memory asked for, and returns it for writing in place; else it allocates. Reading
// input i stays legal until the kernel has written over it: input i is left in place as borrowed.
func (c *Context) Forward(i, o int, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	return c.ForwardAny(o, dtype, shape, i)
}

// ForwardAny is Forward with the first of the inputs that can be taken over.
func (c *Context) ForwardAny(o int, dtype tensor.DType, shape tensor.Shape, inputs ...int) (*tensor.Tensor, error) {
	for _, i := range inputs {
		if t := c.Inputs[i].Tensor; t != nil && t.DType() == dtype && t.Exclusive() && t.Shape().Equal(shape) && c.Memory(o).Holds(t) {
			c.Outputs[o] = Value{Tensor: t.Retain()}
			return t, nil
		}
	}
	return c.Allocate(o, dtype, shape)
}

// noFiles are those of a step that was given none.
var noFiles = files.None("the step has no files")

// Files are the files that the step may use. What outlives the step keeps them where it goes on for the session that
// made it; where it serves others, it takes those of the step that asks.
func (c *Context) Files() files.FS {
	if c.Step.Files == nil {
		return noFiles
	}
	return c.Step.Files
}

// Ints reads input i, a vector or scalar of int32 or int64, as int64s: how ops take shapes,
// axes and sizes. The error names the input.
func (c *Context) Ints(i int) ([]int64, error) {
	t := c.Input(i)
	m := c.Meter()
	defer m.Done() // the list is shorter than the inputs that stay
	out, err := Scratch[int64](&m, t.Len())
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.Int32:
		for j, v := range tensor.Of[int32](t) {
			out[j] = int64(v)
		}
	case tensor.Int64:
		copy(out, tensor.Of[int64](t))
	default:
		return nil, status.InvalidArgumentf("Input %d must be int32 or int64, not %v", i, t.DType())
	}
	return out, nil
}

// Resources are the containers of a device, as kernels see them: containers.Manager.
type Resources = *containers.Manager

// Functions runs functions of the graph's library. Kernels of calls, conditionals and functional
// loops get it at construction.
type Functions interface {
	// Instantiate prepares a function for attribute values (its polymorphic types). It is called
	// by constructors or at the first run, and is cached.
	Instantiate(fn *graph.FunctionRef) (Function, error)
	// Library is what the functions are of, for kernels whose calls outlive the session.
	Library() Library
}

// Library is a graph's functions on a device, compiled or not. It does not change, holds nothing that has to be
// released, and two that are equal have the same functions.
type Library interface {
	// Open makes the functions callable, compiled anew, until they are closed.
	Open() OpenLibrary
	// Find gives a node of the function's body, or of one that it calls, that holds; nil where none does.
	Find(fn *graph.FunctionRef, holds func(*graph.Node) bool) (*graph.Node, error)
	// Defs adds the function's definition, and those of the ones that it calls, to defs by name.
	Defs(fn *graph.FunctionRef, defs map[string]*functionpb.FunctionDef) error
}

// OpenLibrary is functions that belong to who opened them, and to no session.
type OpenLibrary interface {
	Functions
	// Close gives up what the functions hold. None of them must run any more, nor be called again.
	Close()
}

// Function is an instantiated function.
type Function interface {
	// NumArgs and NumResults are what the signature declares.
	NumArgs() int
	NumResults() int
	// Call runs the function as part of the caller's step. It takes over a reference to each
	// argument. done is called exactly once, on any goroutine; the results are its to release.
	Call(step *Step, args []Value, done func(results []Value, err error))
}

// ReleaseTensors releases each tensor of a list.
func ReleaseTensors(list []*tensor.Tensor) {
	for _, t := range list {
		t.Release()
	}
}
