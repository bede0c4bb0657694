package kernels

import (
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels/files"
)

// Value is what an edge carries: a tensor or a reference to a variable.
type Value struct {
	Tensor *tensor.Tensor
	Ref    *containers.Variable
}

// Release releases the value's reference to its tensor.
func (v Value) Release() {
	if v.Tensor != nil {
		v.Tensor.Release()
	}
}

// Tag identifies the loop iteration that an execution belongs to.
type Tag = transfer.Tag

// Context is one execution of a kernel. The executor owns it and reuses it after a Kernel returns or an AsyncKernel has called done.
type Context struct {
	// Node is the node that runs, Device is where it runs, and Step is the run that it is part of.
	Node   *graph.Node
	Device Device
	Step   *Step
	// Tag is the iteration that this execution belongs to.
	Tag Tag
	// Dead reports that an input did not arrive because its branch was not taken. Only sends and receives see it; other kernels do not run
	// then.
	Dead bool
	// Inputs are borrowed: the executor releases them after the kernel, except for those that the kernel took over with Forward or
	// Take. Outputs belong to the kernel until it ends, then to the executor. A nil output is a missing output, which is legal only for
	// Switch and Merge.
	Inputs, Outputs []Value
	// HostOutputs marks the outputs that are in host memory on a device with its own memory, as returned by MemoryTypes.
	HostOutputs []bool
	// Caller, if not nil, is notified of what an asynchronous kernel waits for.
	Caller Caller

	finishing bool // Finish is running: the step's end does not end the kernel
}

// NumInputs returns the number of data inputs.
func (c *Context) NumInputs() int { return len(c.Inputs) }

// Input returns the tensor at input i, borrowed for the call. References have already been read unless the op takes a reference.
func (c *Context) Input(i int) *tensor.Tensor { return c.Inputs[i].Tensor }

// Changes returns what collects the changes of the kernel's step to durable resources, or nil.
func (c *Context) Changes() *durable.Tx {
	if c.Step == nil {
		return nil
	}
	return c.Step.Changes
}

// Ref returns the variable that the reference at input i refers to.
func (c *Context) Ref(i int) *containers.Variable { return c.Inputs[i].Ref }

// SetOutput sets output i to t and takes over the caller's reference.
func (c *Context) SetOutput(i int, t *tensor.Tensor) { c.Outputs[i] = Value{Tensor: t} }

// SetRef makes output i a reference to v.
func (c *Context) SetRef(i int, v *containers.Variable) { c.Outputs[i] = Value{Ref: v} }

// Pass moves input i to output o unchanged; a reference stays a reference.
func (c *Context) Pass(i, o int) {
	v := c.Inputs[i]
	c.Inputs[i] = Value{}
	c.Outputs[o] = v
}

// Take transfers the kernel's reference to the tensor at input i to the caller; the executor no longer releases it.
func (c *Context) Take(i int) *tensor.Tensor {
	t := c.Inputs[i].Tensor
	c.Inputs[i].Tensor = nil
	return t
}

// Memory returns the memory that output o belongs in.
func (c *Context) Memory(o int) tensor.Memory {
	if c.HostOutputs != nil && c.HostOutputs[o] {
		return c.Device.Pool()
	}
	return c.Device.Memory()
}

// Allocate sets output o to a new tensor with undefined content, in the memory that the output belongs in, and returns it to be filled. It
// fails once the step has ended, which also ends kernels that make many outputs.
func (c *Context) Allocate(o int, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	if err := c.Ended(); err != nil {
		return nil, err
	}
	t, err := c.Memory(o).New(dtype, shape)
	if err != nil {
		return nil, err
	}
	c.Outputs[o] = Value{Tensor: t}
	return t, nil
}

// Forward reuses the tensor at input i as output o and returns it to be written in place if nothing else refers to the tensor and it has
// the requested dtype, shape and memory. Otherwise it allocates. The input stays borrowed: the kernel may read it until it has overwritten
// it.
func (c *Context) Forward(i, o int, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	return c.ForwardAny(o, dtype, shape, i)
}

// ForwardAny is Forward with the first of the inputs that can be reused.
func (c *Context) ForwardAny(o int, dtype tensor.DType, shape tensor.Shape, inputs ...int) (*tensor.Tensor, error) {
	for _, i := range inputs {
		if t := c.Inputs[i].Tensor; t != nil && t.DType() == dtype && t.Exclusive() && t.Shape().Equal(shape) && c.Memory(o).Holds(t) {
			c.Outputs[o] = Value{Tensor: t.Retain()}
			return t, nil
		}
	}
	return c.Allocate(o, dtype, shape)
}

// Files returns the files that the op may use in the step; an op that is not among rights.FileOps gets none. An object that outlives the
// step keeps its files if it continues to serve the session that made it; if it serves other sessions, it uses the files of the requesting
// step.
func (c *Context) Files() files.FS { return c.Step.Files.For(c.Node.Op) }

// Ints reads input i, a vector or scalar of int32 or int64, as int64s. Ops take shapes, axes and sizes this way. The error names the input.
func (c *Context) Ints(i int) ([]int64, error) {
	t := c.Input(i)
	m := c.Meter()
	defer m.Done() // the list is smaller than the inputs, which stay
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

// Resources are a device's containers as kernels see them.
type Resources = *containers.Manager

// Functions runs functions of the graph's library. The kernels of calls, conditionals and functional loops get it at construction.
type Functions interface {
	// Instantiate prepares a function for the given attribute values (its polymorphic types). It is called by constructors or at the first
	// run, and the result is cached.
	Instantiate(fn *graph.FunctionRef) (Function, error)
	// Library returns the functions' library, for kernels whose calls outlive the session.
	Library() Library
}

// Library is a graph's functions on a device, compiled or not. It is immutable and holds nothing that must be released. Two equal libraries
// have the same functions.
type Library interface {
	// Open compiles the functions anew and makes them callable until they are closed.
	Open() OpenLibrary
	// Find returns a node of the function's body, or of a function that it calls, for which holds returns true, or nil if there is none.
	Find(fn *graph.FunctionRef, holds func(*graph.Node) bool) (*graph.Node, error)
	// Defs adds the definitions of the function and of all functions that it calls to defs, by name.
	Defs(fn *graph.FunctionRef, defs map[string]*functionpb.FunctionDef) error
	// With returns a library that has further functions. INVALID_ARGUMENT: a function with the name of an op or of a different function.
	With(more *functionpb.FunctionDefLibrary) (Library, error)
}

// OpenLibrary is a set of functions that belong to the caller of Open rather than to a session.
type OpenLibrary interface {
	Functions
	// InstantiateWith is Instantiate for a function that has captured tensors, which are its last arguments in each call. If a captured
	// handle is of a resource on another device, the function's nodes that use it run there, where the client's way of running functions
	// has that: INVALID_ARGUMENT otherwise, in the call.
	InstantiateWith(fn *graph.FunctionRef, captured []*tensor.Tensor) (Function, error)
	// Close releases what the functions hold. No function may be running or be called afterwards.
	Close()
}

// Function is an instantiated function.
type Function interface {
	// NumArgs and NumResults return the numbers declared by the signature.
	NumArgs() int
	NumResults() int
	// Call runs the function as part of the caller's step. It takes over a reference to each argument. done is called exactly once, on any
	// goroutine, and must release the results.
	Call(step *Step, args []Value, done func(results []Value, err error))
}

// ReleaseTensors releases each tensor of a list. Nil stands for none.
func ReleaseTensors(list []*tensor.Tensor) {
	for _, t := range list {
		if t != nil {
			t.Release()
		}
	}
}
