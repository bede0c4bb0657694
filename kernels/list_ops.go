package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// listOp makes the constructor of an op on lists from a function that gets the elements' type.
func listOp(run func(ctx *Context, dtype tensor.DType) error) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		dtype, err := c.Attrs().Type("element_dtype")
		if err != nil {
			return nil, err
		}
		return Func(func(ctx *Context) error { return run(ctx, dtype) }), nil
	}
}

// scalarInput32 reads input i, an int32 scalar.
func scalarInput32(ctx *Context, i int, text string) (int, error) {
	t := ctx.Input(i)
	if err := needScalar(t, tensor.Int32, text); err != nil {
		return 0, err
	}
	return int(tensor.Of[int32](t)[0]), nil
}

func emptyTensorList(ctx *Context, dtype tensor.DType) error {
	most, err := scalarInput32(ctx, 1, "max_num_elements expected to be a scalar but got shape: %v")
	if err != nil {
		return err
	}
	shape, err := partialShapeInput(ctx, 0)
	if err != nil {
		return err
	}
	l, err := newTensorList(dtype, shape, 0)
	if err != nil {
		return err
	}
	l.max = most
	return outputList(ctx, 0, l)
}

func tensorListReserve(ctx *Context, dtype tensor.DType) error {
	shape, err := partialShapeInput(ctx, 0)
	if err != nil {
		return err
	}
	n, err := scalarInput32(ctx, 1, "The num_elements to reserve must be a tensor size 1, but got %v")
	if err != nil {
		return err
	}
	if n < 0 {
		return status.InvalidArgumentf("The num_elements to reserve must be a non negative number, but got %d", n)
	}
	l, err := newTensorList(dtype, shape, n)
	if err != nil {
		return err
	}
	return outputList(ctx, 0, l)
}

func tensorListPushBack(ctx *Context, dtype tensor.DType) error {
	t := ctx.Input(1)
	if t.DType() != dtype {
		return status.InvalidArgumentf("Invalid data types; list elements %v but tried to append %v", dtype, t.DType())
	}
	l, err := typedList(ctx, 0, dtype)
	if err != nil {
		return err
	}
	if !l.shape.admits(t.Shape()) {
		return status.InvalidArgumentf("Tried to append a tensor with incompatible shape to a list. Op element shape: %v list shape: %v", t.Shape(), l.shape)
	}
	if l.max != -1 && len(l.elems) >= l.max {
		return status.InvalidArgumentf("Tried to push item into a full list list size: %d max_num_elements: %d", len(l.elems), l.max)
	}
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	if err := l.admit(t); err != nil {
		return err
	}
	l.elems = append(l.elems, ctx.Take(1))
	return nil
}

func tensorListPopBack(ctx *Context, dtype tensor.DType) error {
	l, err := typedList(ctx, 0, dtype)
	if err != nil {
		return err
	}
	if len(l.elems) == 0 {
		return status.InvalidArgumentf("Trying to pop from an empty list.")
	}
	last := len(l.elems) - 1
	var shape partialShape
	if l.elems[last] == nil {
		if shape, err = l.shapeInput(ctx, 1); err != nil {
			return err
		}
		if !shape.full() {
			return status.InvalidArgumentf("Trying to read an uninitialized tensor but element_shape is not fully defined.%v", shape)
		}
	}
	t, err := l.element(ctx, last, shape)
	if err != nil {
		return err
	}
	ctx.SetOutput(1, t)
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	l.cut(last)
	return nil
}

func tensorListLength(ctx *Context) error {
	l, err := listInput(ctx, 0)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(len(l.elems))))
	}
	return err
}

func newTensorListElementShape(c *Construction) (any, error) {
	dtype, err := intAttr(c, "shape_type")
	if err != nil {
		return nil, err
	}
	return Func(func(ctx *Context) error {
		l, err := listInput(ctx, 0)
		switch {
		case err != nil:
			return err
		case l.shape.known:
			return outputInts(ctx, 0, dtype, l.shape.dims)
		case dtype == tensor.Int32:
			ctx.SetOutput(0, tensor.Scalar(dtype, int32(-1)))
		default:
			ctx.SetOutput(0, tensor.Scalar(dtype, int64(-1)))
		}
		return nil
	}), nil
}

func tensorListResize(ctx *Context) error {
	l, err := listInput(ctx, 0)
	if err != nil {
		return err
	}
	n, err := scalarInput32(ctx, 1, "size must be a scalar: %v")
	if err != nil {
		return err
	}
	if n < 0 {
		return status.InvalidArgumentf("TensorListSlice expects size to be non-negative. Got: %d", n)
	}
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	return l.resize(n)
}

func tensorListGetItem(ctx *Context, dtype tensor.DType) error {
	l, err := typedList(ctx, 0, dtype)
	if err != nil {
		return err
	}
	i, err := scalarInput32(ctx, 1, "Expected argument 1 to be a scalar. Received %v")
	if err != nil {
		return err
	}
	if i < 0 || i >= len(l.elems) {
		return status.InvalidArgumentf("Trying to access element %d in a list with %d elements.", i, len(l.elems))
	}
	var shape partialShape
	if l.elems[i] == nil {
		if shape, err = l.shapeInput(ctx, 2); err != nil {
			return err
		}
		if !shape.full() {
			if shape, err = l.agreed(shape, l.elems); err != nil {
				return err
			}
		}
	}
	t, err := l.element(ctx, i, shape)
	if err == nil {
		ctx.SetOutput(0, t)
	}
	return err
}

func newTensorListSetItem(c *Construction) (any, error) {
	dtype, err := c.Attrs().Type("element_dtype")
	if err != nil {
		return nil, err
	}
	// Graphs of older clients do not have the attribute.
	grow, _ := c.Attrs().Bool("resize_if_index_out_of_bounds")
	return Func(func(ctx *Context) error {
		l, err := typedList(ctx, 0, dtype)
		if err != nil {
			return err
		}
		i, err := scalarInput32(ctx, 1, "Expected argument 1 to be a scalar. Received %v")
		if err != nil {
			return err
		}
		t := ctx.Input(2)
		if t.DType() != dtype {
			return status.InvalidArgumentf("Invalid data types; list elements %v but tried to set %v", dtype, t.DType())
		}
		if !l.shape.admits(t.Shape()) {
			return status.InvalidArgumentf("Tried to set a tensor with incompatible shape at a list index. Item element shape: %v list shape: %v", t.Shape(), l.shape)
		}
		if i < 0 || i >= len(l.elems) && !grow {
			return status.InvalidArgumentf("Trying to modify element %d in a list with %d elements.", i, len(l.elems))
		}
		if l, err = changeableList(ctx, l); err != nil {
			return err
		}
		if i >= len(l.elems) {
			if err := l.resize(i + 1); err != nil {
				return err
			}
		}
		if err := l.admit(t); err != nil {
			return err
		}
		l.set(i, ctx.Take(2))
		return nil
	}), nil
}

// tensorListConcatLists joins lists one by one.
func tensorListConcatLists(ctx *Context, dtype tensor.DType) error {
	a, b := ctx.Input(0), ctx.Input(1)
	if !a.Shape().Equal(b.Shape()) || a.DType() != tensor.Variant || b.DType() != tensor.Variant {
		return status.InvalidArgumentf("Incompatible input TensorList tensor shapes: %v vs. %v", a.Shape(), b.Shape())
	}
	out, err := ctx.Allocate(0, tensor.Variant, a.Shape())
	if err != nil {
		return err
	}
	for i := range a.Len() {
		la, okA := a.Variants()[i].(*tensorList)
		lb, okB := b.Variants()[i].(*tensorList)
		switch {
		case !okA:
			return status.InvalidArgumentf("input_a is not a TensorList at index %d.  Saw: '%T'", i, a.Variants()[i])
		case !okB:
			return status.InvalidArgumentf("input_b is not a TensorList at index %d.  Saw: '%T'", i, b.Variants()[i])
		case la.dtype != dtype:
			return status.InvalidArgumentf("input_a[%d].dtype != element_dtype.  Saw: %v vs. %v", i, la.dtype, dtype)
		case lb.dtype != dtype:
			return status.InvalidArgumentf("input_b[%d].dtype != element_dtype.  Saw: %v vs. %v", i, lb.dtype, dtype)
		case la.shape.known != lb.shape.known || !la.shape.dims.Equal(lb.shape.dims):
			return status.InvalidArgumentf("input_a and input_b TensorList element shapes are not identical at index %d.  Saw %v vs. %v", i, la.shape, lb.shape)
		case len(la.elems)+len(lb.elems) > maxList:
			return status.Errorf(status.ResourceExhausted, "OOM when allocating a list of %d tensors", len(la.elems)+len(lb.elems))
		}
		joined, tail := la.clone(), lb.clone()
		joined.elems, joined.depth = append(joined.elems, tail.elems...), max(joined.depth, tail.depth)
		tail.elems = nil
		out.Variants()[i] = joined
	}
	return nil
}

// tensorListPushBackBatch appends row i of a tensor to list i.
func tensorListPushBackBatch(ctx *Context, dtype tensor.DType) error {
	lists, t := ctx.Input(0), ctx.Input(1)
	switch {
	case t.DType() != dtype:
		return status.InvalidArgumentf("Invalid data types; list elements %v but tried to append %v", dtype, t.DType())
	case t.Rank() == 0:
		return status.InvalidArgumentf("Expected tensor to be at least a vector, but saw shape: %v", t.Shape())
	case lists.DType() != tensor.Variant || lists.Rank() != 1:
		return status.InvalidArgumentf("Expected input_handles to be a vector, but saw shape: %v", lists.Shape())
	case t.Dim(0) != lists.Len():
		return status.InvalidArgumentf("Expected tensor.shape[0] == input_handles.size, but saw %d vs. %d", t.Dim(0), lists.Len())
	}
	out, err := ctx.Allocate(0, tensor.Variant, lists.Shape())
	if err != nil {
		return err
	}
	shape := t.Shape()[1:]
	for i, v := range lists.Variants() {
		l, ok := v.(*tensorList)
		switch {
		case !ok:
			return status.InvalidArgumentf("Input handle at index %d is not a list. Saw: '%T'", i, v)
		case l.dtype != dtype:
			return status.InvalidArgumentf("Invalid data type at index %d; op elements %v but list elements %v", i, dtype, l.dtype)
		case !l.shape.admits(shape):
			return status.InvalidArgumentf("Tried to append a tensor with incompatible shape to a list at index %d. Op element shape: %v list shape: %v", i, shape, l.shape)
		}
		row, err := part(ctx, t, shape, i*shape.Elements(), shape.Elements())
		if err != nil {
			return err
		}
		c := l.clone()
		c.elems = append(c.elems, row)
		out.Variants()[i] = c
		if err := c.admit(row); err != nil {
			return err
		}
	}
	return nil
}
