package list

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// listOp returns the constructor of an op on lists that runs a function with the elements' type.
func listOp(run func(ctx *kernels.Context, dtype tensor.DType) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		dtype, err := c.Attrs().Type("element_dtype")
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error { return run(ctx, dtype) }), nil
	}
}

func emptyTensorList(ctx *kernels.Context, dtype tensor.DType) error {
	most, err := args.ScalarInput32(ctx, 1, "max_num_elements expected to be a scalar but got shape: %v")
	if err != nil {
		return err
	}
	shape, err := shapes.PartialShapeInput(ctx, 0)
	if err != nil {
		return err
	}
	l, err := variant.NewTensorList(dtype, shape, 0)
	if err != nil {
		return err
	}
	l.Max = most
	return outputList(ctx, l)
}

func tensorListReserve(ctx *kernels.Context, dtype tensor.DType) error {
	shape, err := shapes.PartialShapeInput(ctx, 0)
	if err != nil {
		return err
	}
	n, err := args.ScalarInput32(ctx, 1, "The num_elements to reserve must be a tensor size 1, but got %v")
	if err != nil {
		return err
	}
	if n < 0 {
		return status.InvalidArgumentf("The num_elements to reserve must be a non negative number, but got %d", n)
	}
	l, err := variant.NewTensorList(dtype, shape, n)
	if err != nil {
		return err
	}
	return outputList(ctx, l)
}

func tensorListPushBack(ctx *kernels.Context, dtype tensor.DType) error {
	t := ctx.Input(1)
	if t.DType() != dtype {
		return status.InvalidArgumentf("Invalid data types; list elements %v but tried to append %v", dtype, t.DType())
	}
	l, err := typedList(ctx, dtype)
	if err != nil {
		return err
	}
	if !l.Shape.Admits(t.Shape()) {
		return status.InvalidArgumentf("Tried to append a tensor with incompatible shape to a list. Op element shape: %v list shape: %v", t.Shape(), l.Shape)
	}
	if l.Max != -1 && len(l.Elems) >= l.Max {
		return status.InvalidArgumentf("Tried to push item into a full list list size: %d max_num_elements: %d", len(l.Elems), l.Max)
	}
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	if err := l.Admit(t); err != nil {
		return err
	}
	if err := l.Append(ctx.Input(1)); err != nil {
		return err
	}
	ctx.Take(1) // the list now owns the reference
	return nil
}

func tensorListPopBack(ctx *kernels.Context, dtype tensor.DType) error {
	l, err := typedList(ctx, dtype)
	if err != nil {
		return err
	}
	if len(l.Elems) == 0 {
		return status.InvalidArgumentf("Trying to pop from an empty list.")
	}
	last := len(l.Elems) - 1
	var shape shapes.PartialShape
	if l.Elems[last] == nil {
		if shape, err = l.ShapeInput(ctx, 1); err != nil {
			return err
		}
		if !shape.Full() {
			return status.InvalidArgumentf("Trying to read an uninitialized tensor but element_shape is not fully defined.%v", shape)
		}
	}
	t, err := l.Element(ctx, last, shape)
	if err != nil {
		return err
	}
	ctx.SetOutput(1, t)
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	l.Cut(last)
	return nil
}

func tensorListLength(ctx *kernels.Context) error {
	l, err := listInput(ctx)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(len(l.Elems))))
	}
	return err
}

func newTensorListElementShape(c *kernels.Construction) (any, error) {
	dtype, err := args.IntAttr(c, "shape_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		l, err := listInput(ctx)
		switch {
		case err != nil:
			return err
		case l.Shape.Known:
			return args.OutputInts(ctx, 0, dtype, l.Shape.Dims)
		case dtype == tensor.Int32:
			ctx.SetOutput(0, tensor.Scalar(dtype, int32(-1)))
		default:
			ctx.SetOutput(0, tensor.Scalar(dtype, int64(-1)))
		}
		return nil
	}), nil
}

func tensorListResize(ctx *kernels.Context) error {
	l, err := listInput(ctx)
	if err != nil {
		return err
	}
	n, err := args.ScalarInput32(ctx, 1, "size must be a scalar: %v")
	if err != nil {
		return err
	}
	if n < 0 {
		return status.InvalidArgumentf("TensorListSlice expects size to be non-negative. Got: %d", n)
	}
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	return l.Resize(n)
}

func tensorListGetItem(ctx *kernels.Context, dtype tensor.DType) error {
	l, err := typedList(ctx, dtype)
	if err != nil {
		return err
	}
	index, err := args.ScalarInt(ctx, 1, "index") // a vector of one is accepted too
	if err != nil {
		return err
	}
	i := int(index)
	if i < 0 || i >= len(l.Elems) {
		return status.InvalidArgumentf("Trying to access element %d in a list with %d elements.", i, len(l.Elems))
	}
	var shape shapes.PartialShape
	if l.Elems[i] == nil {
		if shape, err = l.ShapeInput(ctx, 2); err != nil {
			return err
		}
		if !shape.Full() {
			if shape, err = l.Agreed(shape, l.Elems); err != nil {
				return err
			}
		}
	}
	t, err := l.Element(ctx, i, shape)
	if err == nil {
		ctx.SetOutput(0, t)
	}
	return err
}

func newTensorListSetItem(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("element_dtype")
	if err != nil {
		return nil, err
	}
	// Graphs of older clients lack the attribute.
	grow, _ := c.Attrs().Bool("resize_if_index_out_of_bounds")
	return kernels.Func(func(ctx *kernels.Context) error {
		l, err := typedList(ctx, dtype)
		if err != nil {
			return err
		}
		i, err := args.ScalarInput32(ctx, 1, "Expected argument 1 to be a scalar. Received %v")
		if err != nil {
			return err
		}
		t := ctx.Input(2)
		if t.DType() != dtype {
			return status.InvalidArgumentf("Invalid data types; list elements %v but tried to set %v", dtype, t.DType())
		}
		if !l.Shape.Admits(t.Shape()) {
			return status.InvalidArgumentf("Tried to set a tensor with incompatible shape at a list index. Item element shape: %v list shape: %v", t.Shape(), l.Shape)
		}
		if i < 0 || i >= len(l.Elems) && !grow {
			return status.InvalidArgumentf("Trying to modify element %d in a list with %d elements.", i, len(l.Elems))
		}
		if l, err = changeableList(ctx, l); err != nil {
			return err
		}
		if i >= len(l.Elems) {
			if err := l.Resize(i + 1); err != nil {
				return err
			}
		}
		if err := l.Admit(t); err != nil {
			return err
		}
		l.Set(i, ctx.Take(2))
		return nil
	}), nil
}

// tensorListConcatLists concatenates lists pairwise.
func tensorListConcatLists(ctx *kernels.Context, dtype tensor.DType) error {
	a, b := ctx.Input(0), ctx.Input(1)
	if !a.Shape().Equal(b.Shape()) || a.DType() != tensor.Variant || b.DType() != tensor.Variant {
		return status.InvalidArgumentf("Incompatible input TensorList tensor shapes: %v vs. %v", a.Shape(), b.Shape())
	}
	out, err := ctx.Allocate(0, tensor.Variant, a.Shape())
	if err != nil {
		return err
	}
	for i := range a.Len() {
		la, okA := a.Variants()[i].(*variant.TensorList)
		lb, okB := b.Variants()[i].(*variant.TensorList)
		switch {
		case !okA:
			return status.InvalidArgumentf("input_a is not a TensorList at index %d.  Saw: '%T'", i, a.Variants()[i])
		case !okB:
			return status.InvalidArgumentf("input_b is not a TensorList at index %d.  Saw: '%T'", i, b.Variants()[i])
		case la.DType != dtype:
			return status.InvalidArgumentf("input_a[%d].dtype != element_dtype.  Saw: %v vs. %v", i, la.DType, dtype)
		case lb.DType != dtype:
			return status.InvalidArgumentf("input_b[%d].dtype != element_dtype.  Saw: %v vs. %v", i, lb.DType, dtype)
		case la.Shape.Known != lb.Shape.Known || !la.Shape.Dims.Equal(lb.Shape.Dims):
			return status.InvalidArgumentf("input_a and input_b TensorList element shapes are not identical at index %d.  Saw %v vs. %v", i, la.Shape, lb.Shape)
		}
		joined, err := la.Clone()
		if err != nil {
			return err
		}
		if err := joined.Concat(lb); err != nil {
			joined.Release()
			return err
		}
		out.Variants()[i] = joined
	}
	return nil
}

// tensorListPushBackBatch appends row i of a tensor to list i.
func tensorListPushBackBatch(ctx *kernels.Context, dtype tensor.DType) error {
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
		l, ok := v.(*variant.TensorList)
		switch {
		case !ok:
			return status.InvalidArgumentf("Input handle at index %d is not a list. Saw: '%T'", i, v)
		case l.DType != dtype:
			return status.InvalidArgumentf("Invalid data type at index %d; op elements %v but list elements %v", i, dtype, l.DType)
		case !l.Shape.Admits(shape):
			return status.InvalidArgumentf("Tried to append a tensor with incompatible shape to a list at index %d. Op element shape: %v list shape: %v", i, shape, l.Shape)
		}
		row, err := layout.Part(ctx, t, shape, i*shape.Elements(), shape.Elements())
		if err != nil {
			return err
		}
		c, err := l.Clone()
		if err == nil {
			if err = c.Append(row); err != nil {
				c.Release()
			}
		}
		if err != nil {
			row.Release()
			return err
		}
		out.Variants()[i] = c
		if err := c.Admit(row); err != nil {
			return err
		}
	}
	return nil
}
