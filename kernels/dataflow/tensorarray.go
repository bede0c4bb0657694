package dataflow

import (
	"sync"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// tensorArray is an array that TensorFlow 1's loops read and write by index. It ends with its step. An array of gradients adds up the
// values written to an index. Where nothing was written, it reads as zeros of the shape that the forward array had there.
type tensorArray struct {
	name      string
	dtype     tensor.DType
	identical bool // the first write determines the shape of all
	clears    bool // a read removes the element
	gradient  bool

	mu      sync.Mutex
	shape   shapes.PartialShape
	dynamic bool // writes beyond the end grow it
	closed  bool
	elems   []arrayElement
	counted int64 // bytes of elems counted against the process's limit
}

type arrayElement struct {
	t *tensor.Tensor
	// shape is the shape of the value; a written element without a tensor is zeros of that shape.
	shape                  tensor.Shape
	written, read, cleared bool
}

// Close drops the elements. Later uses fail.
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
	tensor.Host.Unreserve(a.counted)
	a.counted = 0
}

func (a *tensorArray) open() error {
	if a.closed {
		return status.InvalidArgumentf("TensorArray %s has already been closed.", a.name)
	}
	return nil
}

// countStep is the minimum number of bytes of elements that are counted at once.
const countStep = 64 << 10

// grow grows the array to n elements if that is allowed. The caller holds mu.
func (a *tensorArray) grow(n int) error {
	if n > variant.MaxList {
		return status.Errorf(status.ResourceExhausted, "OOM when allocating a TensorArray of %d elements", n)
	}
	// Elements are counted in steps; a full list is copied to a larger one.
	if missing := int64(n)*int64(unsafe.Sizeof(arrayElement{})) - a.counted; missing >= countStep {
		if err := tensor.Host.Reserve(missing); err != nil {
			return status.Errorf(status.ResourceExhausted, "OOM when allocating a TensorArray of %d elements: %s", n, status.From(err).Message)
		}
		a.counted += missing
	}
	if n > len(a.elems) {
		a.elems = append(a.elems, make([]arrayElement, n-len(a.elems))...)
	}
	return nil
}

// write sets element i, or adds to it in an array of gradients. The caller holds mu and keeps its reference to t.
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

// add adds t to a written element, in place if nothing else refers to that element's tensor.
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

// take reads element i, with a reference for the caller. The caller holds mu.
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

// takeAll reads the elements at indices, or all if indices is nil.
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

// growing reports whether writes may grow the array.
func (a *tensorArray) growing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.dynamic
}

// narrow merges a reader's shape into the elements' shape.
func (a *tensorArray) narrow(shape shapes.PartialShape) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shape, err = a.shape.Merge(shape)
	return err
}

// gradientOf returns the array of gradients of a, whose size is then fixed. lead are the dimensions that gradients have in front of those
// of the values.
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
	g := &tensorArray{name: name, dtype: a.dtype, identical: a.identical, clears: true, gradient: true}
	if err := g.grow(len(a.elems)); err != nil {
		return nil, err
	}
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
