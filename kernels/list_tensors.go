package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// part is the run of size elements of t from element at on, as a tensor of the given shape:
// shared where that is good, else copied.
func part(ctx *Context, t *tensor.Tensor, shape tensor.Shape, at, size int) (*tensor.Tensor, error) {
	if shareable(t, at, size) {
		flat := t.Reshaped(tensor.Shape{int64(t.Len())})
		defer flat.Release()
		run := flat.Rows(at, at+size)
		defer run.Release()
		return run.Reshaped(shape), nil
	}
	out, err := memoryFor(ctx, t.DType()).New(t.DType(), shape)
	if err != nil || size == 0 {
		return out, err
	}
	move(ctx, out, t, newNest([]int{size}, []int{1}, []int{1}, 0, at))
	return out, nil
}

// join copies elements of the list, one after the other, to a new output 0 of the given shape;
// elements that are not set become zeros of size elements.
func (l *tensorList) join(ctx *Context, shape tensor.Shape, elems []*tensor.Tensor, size int) error {
	out, err := ctx.Allocate(0, l.dtype, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	for i, t := range elems {
		if t != nil {
			move(ctx, out, t, newNest([]int{size}, []int{1}, []int{1}, i*size, 0))
		} else if bytes := l.dtype.Size(); bytes > 0 {
			clear(out.Data()[i*size*bytes : (i+1)*size*bytes])
		}
	}
	return nil
}

func newTensorListStack(c *Construction) (any, error) {
	dtype, err := c.Attrs().Type("element_dtype")
	if err != nil {
		return nil, err
	}
	want, err := c.Attrs().Int("num_elements")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		l, err := typedList(ctx, 0, dtype)
		if err != nil {
			return err
		}
		if want != -1 && int64(len(l.elems)) != want {
			return status.InvalidArgumentf("Operation expected a list with %d elements but got a list with %d elements.", want, len(l.elems))
		}
		shape, err := l.shapeInput(ctx, 1)
		if err != nil {
			return err
		}
		if !shape.full() && len(l.elems) == 0 {
			return status.InvalidArgumentf("Tried to stack elements of an empty list with non-fully-defined element_shape: %v", shape)
		}
		if !l.shape.full() {
			if shape, err = l.agreed(shape, l.elems); err != nil {
				return err
			}
		}
		if !shape.full() {
			return status.InvalidArgumentf("Tried to stack list which only contains uninitialized tensors and has a non-fully-defined element_shape: %v", shape)
		}
		whole := replaced(shape.dims, 0, 0, int64(len(l.elems)))
		if _, err := whole.NumElements(); err != nil {
			return err
		}
		return l.join(ctx, whole, l.elems, shape.dims.Elements())
	}), nil
}

func tensorListGather(ctx *Context, dtype tensor.DType) error {
	l, err := typedList(ctx, 0, dtype)
	if err != nil {
		return err
	}
	pick, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	shape, err := l.shapeInput(ctx, 2)
	if err != nil {
		return err
	}
	if !shape.full() && len(pick) == 0 {
		return status.InvalidArgumentf("Tried to gather 0-elements from a list with non-fully-defined shape: %v", shape)
	}
	picked := make([]*tensor.Tensor, len(pick))
	for k, i := range pick {
		if i < 0 || i >= int64(len(l.elems)) {
			if !l.shape.full() {
				return status.InvalidArgumentf("Trying to gather element %d in a list with %d elements.", i, len(l.elems))
			}
			return status.InvalidArgumentf("Index %d out o range; list only has %d elements.", i, len(l.elems))
		}
		picked[k] = l.elems[i]
	}
	if !l.shape.full() {
		if shape, err = l.agreed(shape, picked); err != nil {
			return err
		}
	}
	if !shape.full() {
		return status.InvalidArgumentf("Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: %v", shape)
	}
	whole := replaced(shape.dims, 0, 0, int64(len(pick)))
	if _, err := whole.NumElements(); err != nil {
		return err
	}
	return l.join(ctx, whole, picked, shape.dims.Elements())
}

// rowsFor checks that the rows of a tensor may become elements of a list of the shape of input i.
func rowsFor(ctx *Context, t *tensor.Tensor, i int) (shape partialShape, row tensor.Shape, err error) {
	if ctx.Input(i).Rank() > 1 {
		return shape, nil, status.InvalidArgumentf("%s: element_shape must be at most rank 1 but has the shape of %v", ctx.Node.Op, ctx.Input(i).Shape())
	}
	if shape, err = partialShapeInput(ctx, i); err != nil {
		return shape, nil, err
	}
	if t.Rank() == 0 {
		return shape, nil, status.InvalidArgumentf("Tensor must be at least a vector, but saw shape: %v", t.Shape())
	}
	row = t.Shape()[1:]
	if !shape.admits(row) {
		return shape, nil, status.InvalidArgumentf("Specified a list with shape %v from a tensor with shape %v", shape, row)
	}
	return shape, row, nil
}

func tensorListFromTensor(ctx *Context, dtype tensor.DType) error {
	t := ctx.Input(0)
	if err := checkType(ctx, 0, dtype); err != nil {
		return err
	}
	shape, row, err := rowsFor(ctx, t, 1)
	if err != nil {
		return err
	}
	l, err := newTensorList(dtype, shape, t.Dim(0))
	if err != nil {
		return err
	}
	if err := l.scatter(ctx, t, row, nil); err != nil {
		l.Release()
		return err
	}
	return outputList(ctx, 0, l)
}

// scatter makes row i of t element to[i] of the list, element i where to is nil.
func (l *tensorList) scatter(ctx *Context, t *tensor.Tensor, row tensor.Shape, to []int64) error {
	if err := l.admit(t); err != nil {
		return err
	}
	n := row.Elements()
	for i := range t.Dim(0) {
		e, err := part(ctx, t, row, i*n, n)
		if err != nil {
			return err
		}
		k := i
		if to != nil {
			k = int(to[i])
		}
		l.set(k, e)
	}
	return nil
}

func tensorListScatter(ctx *Context, dtype tensor.DType) error {
	t := ctx.Input(0)
	if err := checkType(ctx, 0, dtype); err != nil {
		return err
	}
	to, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	size := -1
	if len(ctx.Inputs) > 3 {
		if size, err = scalarInput32(ctx, 3, "num_elements must be a scalar: %v"); err != nil {
			return err
		}
		if size < -1 {
			return status.InvalidArgumentf("TensorListScatter expects num_elements >= -1, found: %d", size)
		}
	}
	shape, row, err := rowsFor(ctx, t, 2)
	if err != nil {
		return err
	}
	if len(to) != t.Dim(0) {
		return status.InvalidArgumentf("Invalid number of rows in input tensor. Expected: %d Actual: %d", len(to), t.Dim(0))
	}
	n := max(size, 0)
	for _, i := range to {
		if i < 0 {
			return status.InvalidArgumentf("Indices in TensorListScatter must all be non-negative.")
		}
		if size != -1 && i >= int64(size) {
			return status.InvalidArgumentf("TensorListScatter: Trying to scatter at index %d in list with size %d", i, size)
		}
		n = max(n, int(i)+1)
	}
	l, err := newTensorList(dtype, shape, n)
	if err != nil {
		return err
	}
	if err := l.scatter(ctx, t, row, to); err != nil {
		l.Release()
		return err
	}
	return outputList(ctx, 0, l)
}

func tensorListScatterInto(ctx *Context, dtype tensor.DType) error {
	l, err := listInput(ctx, 0)
	if err != nil {
		return err
	}
	t, indices := ctx.Input(1), ctx.Input(2)
	switch {
	case t.DType() != l.dtype:
		return status.InvalidArgumentf("Invalid data types; input tensor type: %v list element_type: %v", t.DType(), l.dtype)
	case t.Rank() == 0:
		return status.InvalidArgumentf("Tensor must be at least a vector, but saw shape: %v", t.Shape())
	case indices.Rank() != 1:
		return status.InvalidArgumentf("Expected indices to be a vector, but received shape: %v", indices.Shape())
	case indices.Len() != t.Dim(0):
		return status.InvalidArgumentf("Expected len(indices) == tensor.shape[0], but saw: %d vs. %d", indices.Len(), t.Dim(0))
	}
	row := t.Shape()[1:]
	if !l.shape.admits(row) {
		return status.InvalidArgumentf("Specified a list with shape %v from a tensor with shape %v", l.shape, row)
	}
	to, err := ctx.Ints(2)
	if err != nil {
		return err
	}
	n := len(l.elems)
	for _, i := range to {
		if i < 0 {
			return status.InvalidArgumentf("Indices in TensorListScatter must all be non-negative.")
		}
		n = max(n, int(i)+1)
	}
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	if err := l.resize(n); err != nil {
		return err
	}
	return l.scatter(ctx, t, row, to)
}

// tensorListSplit makes a list of runs of rows of input 0, as long as input 2 tells.
func tensorListSplit(ctx *Context, dtype tensor.DType) error {
	t := ctx.Input(0)
	if err := checkType(ctx, 0, dtype); err != nil {
		return err
	}
	shape, err := partialShapeInput(ctx, 1)
	if err != nil {
		return err
	}
	if shape.known && len(shape.dims) == 0 {
		return status.InvalidArgumentf("TensorListSplit requires element_shape to be at least of rank 1, but saw: %v", shape)
	}
	if t.Rank() == 0 {
		return status.InvalidArgumentf("Tensor must be at least a vector, but saw shape: %v", t.Shape())
	}
	if shape.known && !t.Shape()[1:].Compatible(shape.dims[1:]) {
		return status.InvalidArgumentf("tensor shape %v is not compatible with element_shape %v", t.Shape(), shape)
	}
	if ctx.Input(2).Rank() != 1 {
		return status.InvalidArgumentf("Expected lengths to be a vector, received shape: %v", ctx.Input(2).Shape())
	}
	lengths, err := ctx.Ints(2)
	if err != nil {
		return err
	}
	l, err := newTensorList(dtype, shape, len(lengths))
	if err != nil {
		return err
	}
	if err := l.split(ctx, t, lengths); err != nil {
		l.Release()
		return err
	}
	return outputList(ctx, 0, l)
}

func (l *tensorList) split(ctx *Context, t *tensor.Tensor, lengths []int64) error {
	if err := l.admit(t); err != nil {
		return err
	}
	per, at := t.Shape()[1:].Elements(), int64(0)
	for i, n := range lengths {
		if n < 0 {
			return status.InvalidArgumentf("Invalid value in lengths: %d", n)
		}
		if n > t.Shape()[0]-at {
			return status.InvalidArgumentf("Attempting to slice [%d, %d] from tensor with length %d", at, at+n, t.Dim(0))
		}
		e, err := part(ctx, t, replaced(t.Shape(), 0, 1, n), int(at)*per, int(n)*per)
		if err != nil {
			return err
		}
		l.set(i, e)
		at += n
	}
	if at < t.Shape()[0] {
		return status.InvalidArgumentf("Unused values in tensor. Length of tensor: %d Values used: %d", t.Dim(0), at)
	}
	return nil
}
