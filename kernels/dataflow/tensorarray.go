package dataflow

import (
	"fmt"
	"sync"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// tensorArray is what the loops of TensorFlow 1 read and write by index. It ends with its step.
// An array of gradients adds up what is written to one index, and reads as zeros, of the shape
// that the forward array had there, where nothing was.
type tensorArray struct {
	name      string
	dtype     tensor.DType
	identical bool // the first write tells the shape of all
	clears    bool // a read takes the element away
	gradient  bool

	mu      sync.Mutex
	shape   shapes.PartialShape
	dynamic bool // writes beyond the end make it longer
	closed  bool
	elems   []arrayElement
}

type arrayElement struct {
	t *tensor.Tensor
	// shape is that of the value; a written element without a tensor is zeros of that shape.
	shape                  tensor.Shape
	written, read, cleared bool
}

// Close drops the elements. Later uses are refused.
func (a *tensorArray) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, e := range a.elems {
		if e.t != nil {
			e.t.Release()
		}
	}
	a.elems = nil
}

func (a *tensorArray) open() error {
	if a.closed {
		return status.InvalidArgumentf("TensorArray %s has already been closed.", a.name)
	}
	return nil
}

// grow makes the array n long if it may be; it is locked.
func (a *tensorArray) grow(n int) error {
	if n > variant.MaxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a TensorArray of %d elements", n)
	}
	if n > len(a.elems) {
		a.elems = append(a.elems, make([]arrayElement, n-len(a.elems))...)
	}
	return nil
}

// write sets element i, or adds to it in an array of gradients; the array is locked. The
// reference stays the caller's.
func (a *tensorArray) write(ctx *kernels.Context, i int, t *tensor.Tensor) error {
	if i < 0 || !a.dynamic && i >= len(a.elems) {
		return status.InvalidArgumentf("TensorArray %s: Tried to write to index %d but array is not resizeable and size is: %d", a.name, i, len(a.elems))
	}
	if err := a.grow(i + 1); err != nil {
		return err
	}
	e := &a.elems[i]
	switch {
	case t.DType() != a.dtype:
		return status.InvalidArgumentf("TensorArray %s: Could not write to TensorArray index %d because the value dtype is %v but TensorArray dtype is %v.", a.name, i, t.DType(), a.dtype)
	case !a.shape.Admits(t.Shape()):
		return status.InvalidArgumentf("TensorArray %s: Could not write to TensorArray index %d because the value shape is %v which is incompatible with the TensorArray's inferred element shape: %v (consider setting infer_shape=False).", a.name, i, t.Shape(), a.shape)
	case e.read:
		return status.InvalidArgumentf("TensorArray %s: Could not write to TensorArray index %d because it has already been read.", a.name, i)
	case e.written && !a.gradient:
		return status.InvalidArgumentf("TensorArray %s: Could not write to TensorArray index %d because it has already been written to.", a.name, i)
	case e.written && !e.shape.Equal(t.Shape()):
		return status.InvalidArgumentf("TensorArray %s: Could not aggregate to TensorArray index %d because the existing shape is %v but the new input shape is %v.", a.name, i, e.shape, t.Shape())
	}
	if a.identical && !a.shape.Full() {
		a.shape = shapes.PartialShape{Dims: t.Shape().Clone(), Known: true}
	}
	if e.t != nil {
		return a.add(ctx, e, t)
	}
	e.t, e.shape, e.written = t.Retain(), t.Shape().Clone(), true
	return nil
}

// add adds t to an element that has been written, in place where nobody else sees it.
func (a *tensorArray) add(ctx *kernels.Context, e *arrayElement, t *tensor.Tensor) error {
	if update.Updaters[update.Add][a.dtype] == nil {
		return status.InvalidArgumentf("tensor_array::AddToTensor type not supported: %v", a.dtype)
	}
	if e.t.Exclusive() {
		update.All(ctx, update.Add, e.t, e.t, t)
		return nil
	}
	sum, err := layout.MemoryFor(ctx, a.dtype).New(a.dtype, e.t.Shape())
	if err != nil {
		return err
	}
	update.All(ctx, update.Add, sum, e.t, t)
	e.t.Release()
	e.t = sum
	return nil
}

// take reads element i, with a reference for the caller; the array is locked.
func (a *tensorArray) take(ctx *kernels.Context, i int) (*tensor.Tensor, error) {
	if i < 0 || !a.gradient && i >= len(a.elems) {
		return nil, status.InvalidArgumentf("Tried to read from index %d but array size is: %d", i, len(a.elems))
	}
	if err := a.grow(i + 1); err != nil {
		return nil, err
	}
	e := &a.elems[i]
	if !e.written {
		if !a.shape.Full() {
			return nil, status.InvalidArgumentf("TensorArray %s: Could not read from TensorArray index %d.  Furthermore, the element shape is not fully defined: %v.  It is possible you are working with a resizeable TensorArray and stop_gradients is not allowing the gradients to be written.  If you set the full element_shape property on the forward TensorArray, the proper all-zeros tensor will be returned instead of incurring this error.", a.name, i, a.shape)
		}
		e.shape, e.written = a.shape.Dims, true
	}
	if e.cleared {
		return nil, status.InvalidArgumentf("TensorArray %s: Could not read index %d twice because it was cleared after a previous read (perhaps try setting clear_after_read = false?).", a.name, i)
	}
	if e.t == nil {
		var err error
		if e.t, err = layout.Zeros(ctx, layout.MemoryFor(ctx, a.dtype), a.dtype, e.shape); err != nil {
			return nil, err
		}
	}
	e.read = true
	t := e.t
	if a.clears {
		e.t, e.cleared = nil, true
		return t, nil
	}
	return t.Retain(), nil
}

// takeAll reads elements by index, all for nil.
func (a *tensorArray) takeAll(ctx *kernels.Context, indices []int64) (list []*tensor.Tensor, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.open(); err != nil {
		return nil, err
	}
	n := len(a.elems)
	if indices != nil {
		n = len(indices)
	}
	for k := range n {
		i := k
		if indices != nil {
			i = int(indices[k])
		}
		t, err := a.take(ctx, i)
		if err != nil {
			kernels.ReleaseTensors(list)
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func (a *tensorArray) writeOne(ctx *kernels.Context, i int, t *tensor.Tensor) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.open(); err != nil {
		return err
	}
	return a.write(ctx, i, t)
}

func (a *tensorArray) readOne(ctx *kernels.Context, i int) (*tensor.Tensor, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.open(); err != nil {
		return nil, err
	}
	return a.take(ctx, i)
}

func (a *tensorArray) size() (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.elems), a.open()
}

// growing tells whether writes may make the array longer.
func (a *tensorArray) growing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dynamic
}

// narrow notes what a reader says of the elements' shape.
func (a *tensorArray) narrow(shape shapes.PartialShape) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shape, err = a.shape.Merge(shape)
	return err
}

// gradientOf makes the array of gradients of a, whose size is fixed from then on. lead are
// dimensions that gradients have before those of the values.
func (a *tensorArray) gradientOf(name string, lead tensor.Shape) (*tensorArray, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.open(); err != nil {
		return nil, err
	}
	if a.gradient {
		return nil, status.InvalidArgumentf("Wrong input container. %s", arrayGradsPrefix+a.name)
	}
	a.dynamic = false
	g := &tensorArray{name: name, dtype: a.dtype, identical: a.identical, clears: true, gradient: true, elems: make([]arrayElement, len(a.elems))}
	if a.shape.Known {
		g.shape = shapes.PartialShape{Dims: shapes.Replaced(a.shape.Dims, 0, 0, lead...), Known: true}
	}
	for i, e := range a.elems {
		if e.written {
			g.elems[i] = arrayElement{shape: shapes.Replaced(e.shape, 0, 0, lead...), written: true}
		}
	}
	return g, nil
}

// handleKind is how an op hands out an array; the ops of each version of TensorFlow have one.
type handleKind int

const (
	resourceHandle handleKind = iota
	stringHandle              // a vector of two strings
	refHandle                 // a reference to such a vector
)

// What the first of the two strings of a handle is.
const (
	arraysPrefix     = "_tensor_arrays"
	arrayGradsPrefix = "_tensor_array_grads"
)

// set makes output 0 the handle of a. A resource handle has a second output beside it, and all ops that use
// an array have a last input: a float called the flow, which carries nothing but the order of things.
func (k handleKind) set(ctx *kernels.Context, prefix string, a *tensorArray) error {
	switch k {
	case refHandle:
		ctx.SetRef(0, kernels.NameVariable(prefix, a.name))
		return nil
	case stringHandle:
		t, err := tensor.FromStrings(tensor.Shape{2}, []string{prefix, a.name})
		if err == nil {
			ctx.SetOutput(0, t)
		}
		return err
	}
	ctx.SetOutput(0, stepHandle(ctx, kindTensorArray, a.name, a))
	flow, err := layout.Zeros(ctx, ctx.Memory(1), tensor.Float32, nil)
	if err == nil {
		ctx.SetOutput(1, flow)
	}
	return err
}

// newTensorArray makes the kernel that makes an array in the step's container.
func newTensorArray(handle handleKind) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) { return makeTensorArray(c, handle) }
}

func makeTensorArray(c *kernels.Construction, handle handleKind) (any, error) {
	a := c.Attrs()
	dtype, err := a.Type("dtype")
	if err != nil {
		return nil, err
	}
	shape, known, err := a.Shape("element_shape")
	if err != nil {
		return nil, err
	}
	dynamic, err := a.Bool("dynamic_size")
	if err != nil {
		return nil, err
	}
	clears, err := a.Bool("clear_after_read")
	if err != nil {
		return nil, err
	}
	// Graphs of older clients do not have the attribute.
	identical, _ := a.Bool("identical_element_shapes")
	name, err := a.Str("tensor_array_name")
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = c.Node.Name
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		size, err := args.ScalarInput32(ctx, 0, "TensorArray size must be scalar, but had shape: %v")
		if err != nil {
			return err
		}
		if size < 0 {
			return status.InvalidArgumentf("Size should be >= 0.")
		}
		array := &tensorArray{name: fmt.Sprintf("%s_%d", name, stepResources.Add(1)), dtype: dtype, identical: identical, clears: clears,
			shape: shapes.PartialShape{Dims: shape, Known: known}, dynamic: dynamic}
		if err := array.grow(size); err != nil {
			return err
		}
		if err := addToStep(ctx, kindTensorArray, array.name, array); err != nil {
			return err
		}
		return handle.set(ctx, arraysPrefix, array)
	}), nil
}

// newTensorArrayGrad makes the kernel that makes the gradient array of an array, or finds the one
// that was made for the same source.
func newTensorArrayGrad(handle handleKind) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) { return makeTensorArrayGrad(c, handle) }
}

func makeTensorArrayGrad(c *kernels.Construction, handle handleKind) (any, error) {
	source, err := c.Attrs().Str("source")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		a, err := arrayOf(ctx)
		if err != nil {
			return err
		}
		var lead tensor.Shape
		if len(ctx.Inputs) > 2 {
			sizes, err := args.VectorInts(ctx, 2, "shape_to_prepend")
			if err != nil {
				return err
			}
			if lead, err = shapes.ShapeOf(sizes); err != nil {
				return err
			}
		}
		name := a.name + "@" + source
		r, err := ctx.Device.Resources().LookupOrCreate(ctx.Step.Container, kindTensorArray, name, func() (containers.Resource, error) {
			return a.gradientOf(name, lead)
		})
		if err != nil {
			return err
		}
		return handle.set(ctx, arrayGradsPrefix, r.(*tensorArray))
	}), nil
}

func arrayOf(ctx *kernels.Context) (*tensorArray, error) {
	return stepResource[*tensorArray](ctx, kindTensorArray)
}

// arrayFor is the array at input 0 for an op that asks for a type of elements.
func arrayFor(ctx *kernels.Context, dtype tensor.DType, verb string) (*tensorArray, error) {
	a, err := arrayOf(ctx)
	if err == nil && a.dtype != dtype {
		err = status.InvalidArgumentf("TensorArray dtype is %v but Op %s dtype %v.", a.dtype, verb, dtype)
	}
	return a, err
}

const (
	wants  = "requested"
	writes = "is trying to write"
)

func tensorArrayWrite(ctx *kernels.Context) error {
	t := ctx.Input(2)
	i, err := args.ScalarInput32(ctx, 1, "TensorArray index must be scalar, but had shape: %v")
	if err != nil {
		return err
	}
	a, err := arrayFor(ctx, t.DType(), writes)
	if err != nil {
		return err
	}
	if err := a.writeOne(ctx, i, t); err != nil {
		return err
	}
	ctx.Pass(3, 0)
	return nil
}

// arrayReader makes the constructor of an op that reads elements of the type of attribute dtype.
func arrayReader(run func(ctx *kernels.Context, a *tensorArray) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		dtype, err := c.Attrs().Type("dtype")
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			a, err := arrayFor(ctx, dtype, wants)
			if err != nil {
				return err
			}
			return run(ctx, a)
		}), nil
	}
}

func tensorArrayRead(ctx *kernels.Context, a *tensorArray) error {
	i, err := args.ScalarInput32(ctx, 1, "TensorArray index must be scalar, but had shape: %v")
	if err != nil {
		return err
	}
	t, err := a.readOne(ctx, i)
	if err == nil {
		ctx.SetOutput(0, t)
	}
	return err
}

// tensorArrayGather stacks the elements that input 1 tells.
func tensorArrayGather(ctx *kernels.Context, a *tensorArray) error {
	dims, known, err := ctx.Node.Attrs.Shape("element_shape")
	if err != nil {
		return err
	}
	shape := shapes.PartialShape{Dims: dims, Known: known}
	if ctx.Input(1).Rank() != 1 {
		return status.InvalidArgumentf("Expected indices to be a vector, but received shape: %v", ctx.Input(1).Shape())
	}
	indices, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	return packElements(ctx, a, shape, indices)
}

// tensorArrayPack stacks all elements.
func tensorArrayPack(ctx *kernels.Context, a *tensorArray) error {
	dims, known, err := ctx.Node.Attrs.Shape("element_shape")
	if err != nil {
		return err
	}
	n, err := a.size()
	if err != nil {
		return err
	}
	return packElements(ctx, a, shapes.PartialShape{Dims: dims, Known: known}, upTo(n))
}

// packElements stacks the elements of the indices, which have the shape that was asked for.
func packElements(ctx *kernels.Context, a *tensorArray, shape shapes.PartialShape, indices []int64) error {
	if err := a.narrow(shape); err != nil {
		return err
	}
	if len(indices) == 0 {
		if !shape.Full() {
			return status.Unimplementedf("TensorArray has size zero, but element shape %v is not fully defined. Currently only static shapes are supported when packing zero-size TensorArrays.", shape)
		}
		_, err := ctx.Allocate(0, a.dtype, shapes.Replaced(shape.Dims, 0, 0, 0))
		return err
	}
	list, err := a.takeAll(ctx, indices)
	if err != nil {
		return err
	}
	defer kernels.ReleaseTensors(list)
	first := list[0].Shape()
	if !shape.Admits(first) {
		return status.InvalidArgumentf("TensorArray was passed element_shape %v which does not match the Tensor at index 0: %v", shape, first)
	}
	for i, t := range list {
		if !t.Shape().Equal(first) {
			return status.InvalidArgumentf("TensorArray has inconsistent shapes.  Index 0 has shape: %v but index %d has shape: %v", first, i, t.Shape())
		}
	}
	return layout.JoinTensors(ctx, shapes.Replaced(first, 0, 0, int64(len(list))), 0, list)
}

// tensorArrayConcat joins all elements along their first dimension and tells how long each was.
func tensorArrayConcat(ctx *kernels.Context, a *tensorArray) error {
	dims, known, err := ctx.Node.Attrs.Shape("element_shape_except0")
	if err != nil {
		return err
	}
	rest := shapes.PartialShape{Dims: dims, Known: known}
	list, err := a.takeAll(ctx, nil)
	if err != nil {
		return err
	}
	defer kernels.ReleaseTensors(list)
	if len(list) == 0 {
		if !rest.Full() {
			return status.Unimplementedf("TensorArray has size zero, but element_shape_except0 %v is not fully defined. Currently only static shapes are supported when concatenating zero-size TensorArrays.", rest)
		}
		if _, err := ctx.Allocate(0, a.dtype, shapes.Replaced(dims, 0, 0, 0)); err != nil {
			return err
		}
		return args.OutputInts(ctx, 1, tensor.Int64, nil)
	}
	lengths := make([]int64, len(list))
	for i, t := range list {
		if t.Rank() == 0 {
			return status.InvalidArgumentf("Concat saw a scalar shape at index %d but requires at least vectors.  Did you mean to call pack?", i)
		}
		lengths[i] = t.Shape()[0]
		first, row := list[0].Shape()[1:], t.Shape()[1:]
		if i == 0 && !rest.Admits(row) {
			return status.InvalidArgumentf("TensorArray was passed element_shape_except0 %v but index 0 has (excepting dimension 0) shape: %v which does not match.", rest, row)
		}
		if !row.Equal(first) {
			return status.InvalidArgumentf("TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: %v but index %d has (excepting dimension 0) shape: %v", first, i, row)
		}
	}
	total, ok := shapes.AddSize(lengths...)
	if !ok {
		return status.InvalidArgumentf("The lengths of the array's elements do not fit 63 bits")
	}
	if err := args.OutputInts(ctx, 1, tensor.Int64, lengths); err != nil {
		return err
	}
	return layout.JoinTensors(ctx, shapes.Replaced(list[0].Shape(), 0, 1, total), 0, list)
}

func tensorArraySize(ctx *kernels.Context) error {
	a, err := arrayOf(ctx)
	if err != nil {
		return err
	}
	n, err := a.size()
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(n)))
	}
	return err
}

func tensorArrayClose(ctx *kernels.Context) error {
	a, err := arrayOf(ctx)
	if err == nil {
		a.Close()
	}
	return err
}
