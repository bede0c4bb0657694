package list

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

func newTensorListStack(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	dtype, want := a.Type("element_dtype"), a.Int("num_elements")
	if err := a.Err(); err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		l, err := typedList(ctx, dtype)
		if err != nil {
			return err
		}
		if want != -1 && int64(len(l.Elems)) != want {
			return status.InvalidArgumentf("Operation expected a list with %d elements but got a list with %d elements.", want, len(l.Elems))
		}
		shape, err := l.ShapeInput(ctx, 1)
		if err != nil {
			return err
		}
		if !shape.Full() && len(l.Elems) == 0 {
			return status.InvalidArgumentf("Tried to stack elements of an empty list with non-fully-defined element_shape: %v", shape)
		}
		if !l.Shape.Full() {
			if shape, err = l.Agreed(shape, l.Elems); err != nil {
				return err
			}
		}
		if !shape.Full() {
			return status.InvalidArgumentf("Tried to stack list which only contains uninitialized tensors and has a non-fully-defined element_shape: %v", shape)
		}
		whole := shapes.Replaced(shape.Dims, 0, 0, int64(len(l.Elems)))
		if _, err := whole.NumElements(); err != nil {
			return err
		}
		return l.Join(ctx, whole, l.Elems, shape.Dims.Elements())
	}), nil
}

func tensorListGather(ctx *kernels.Context, dtype tensor.DType) error {
	l, err := typedList(ctx, dtype)
	if err != nil {
		return err
	}
	pick, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	shape, err := l.ShapeInput(ctx, 2)
	if err != nil {
		return err
	}
	if !shape.Full() && len(pick) == 0 {
		return status.InvalidArgumentf("Tried to gather 0-elements from a list with non-fully-defined shape: %v", shape)
	}
	picked := make([]*tensor.Tensor, len(pick))
	for k, i := range pick {
		if i < 0 || i >= int64(len(l.Elems)) {
			if !l.Shape.Full() {
				return status.InvalidArgumentf("Trying to gather element %d in a list with %d elements.", i, len(l.Elems))
			}
			return status.InvalidArgumentf("Index %d out o range; list only has %d elements.", i, len(l.Elems))
		}
		picked[k] = l.Elems[i]
	}
	if !l.Shape.Full() {
		if shape, err = l.Agreed(shape, picked); err != nil {
			return err
		}
	}
	if !shape.Full() {
		return status.InvalidArgumentf("Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: %v", shape)
	}
	whole := shapes.Replaced(shape.Dims, 0, 0, int64(len(pick)))
	if _, err := whole.NumElements(); err != nil {
		return err
	}
	return l.Join(ctx, whole, picked, shape.Dims.Elements())
}

// rowsFor checks that the rows of a tensor can become elements of a list of the shape in input i.
func rowsFor(ctx *kernels.Context, t *tensor.Tensor, i int) (shape shapes.PartialShape, row tensor.Shape, err error) {
	if ctx.Input(i).Rank() > 1 {
		return shape, nil, status.InvalidArgumentf("%s: element_shape must be at most rank 1 but has the shape of %v", ctx.Node.Op, ctx.Input(i).Shape())
	}
	if shape, err = shapes.PartialShapeInput(ctx, i); err != nil {
		return shape, nil, err
	}
	if t.Rank() == 0 {
		return shape, nil, status.InvalidArgumentf("Tensor must be at least a vector, but saw shape: %v", t.Shape())
	}
	row = t.Shape()[1:]
	if !shape.Admits(row) {
		return shape, nil, status.InvalidArgumentf("Specified a list with shape %v from a tensor with shape %v", shape, row)
	}
	return shape, row, nil
}

func tensorListFromTensor(ctx *kernels.Context, dtype tensor.DType) error {
	t := ctx.Input(0)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return err
	}
	shape, row, err := rowsFor(ctx, t, 1)
	if err != nil {
		return err
	}
	l, err := variant.NewTensorList(dtype, shape, t.Dim(0))
	if err != nil {
		return err
	}
	if err := l.Scatter(ctx, t, row, nil); err != nil {
		l.Release()
		return err
	}
	return outputList(ctx, l)
}

func tensorListScatter(ctx *kernels.Context, dtype tensor.DType) error {
	t := ctx.Input(0)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return err
	}
	to, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	size := -1
	if len(ctx.Inputs) > 3 {
		if size, err = args.ScalarInput32(ctx, 3, "num_elements must be a scalar: %v"); err != nil {
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
	l, err := variant.NewTensorList(dtype, shape, n)
	if err != nil {
		return err
	}
	if err := l.Scatter(ctx, t, row, to); err != nil {
		l.Release()
		return err
	}
	return outputList(ctx, l)
}

func tensorListScatterInto(ctx *kernels.Context, dtype tensor.DType) error {
	l, err := listInput(ctx)
	if err != nil {
		return err
	}
	t, indices := ctx.Input(1), ctx.Input(2)
	switch {
	case t.DType() != l.DType:
		return status.InvalidArgumentf("Invalid data types; input tensor type: %v list element_type: %v", t.DType(), l.DType)
	case t.Rank() == 0:
		return status.InvalidArgumentf("Tensor must be at least a vector, but saw shape: %v", t.Shape())
	case indices.Rank() != 1:
		return status.InvalidArgumentf("Expected indices to be a vector, but received shape: %v", indices.Shape())
	case indices.Len() != t.Dim(0):
		return status.InvalidArgumentf("Expected len(indices) == tensor.shape[0], but saw: %d vs. %d", indices.Len(), t.Dim(0))
	}
	row := t.Shape()[1:]
	if !l.Shape.Admits(row) {
		return status.InvalidArgumentf("Specified a list with shape %v from a tensor with shape %v", l.Shape, row)
	}
	to, err := ctx.Ints(2)
	if err != nil {
		return err
	}
	n := len(l.Elems)
	for _, i := range to {
		if i < 0 {
			return status.InvalidArgumentf("Indices in TensorListScatter must all be non-negative.")
		}
		n = max(n, int(i)+1)
	}
	if l, err = changeableList(ctx, l); err != nil {
		return err
	}
	if err := l.Resize(n); err != nil {
		return err
	}
	return l.Scatter(ctx, t, row, to)
}

// tensorListSplit splits the rows of input 0 into a list of consecutive parts, whose lengths are input 2.
func tensorListSplit(ctx *kernels.Context, dtype tensor.DType) error {
	t := ctx.Input(0)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return err
	}
	shape, err := shapes.PartialShapeInput(ctx, 1)
	if err != nil {
		return err
	}
	if shape.Known && len(shape.Dims) == 0 {
		return status.InvalidArgumentf("TensorListSplit requires element_shape to be at least of rank 1, but saw: %v", shape)
	}
	if t.Rank() == 0 {
		return status.InvalidArgumentf("Tensor must be at least a vector, but saw shape: %v", t.Shape())
	}
	if shape.Known && !t.Shape()[1:].Compatible(shape.Dims[1:]) {
		return status.InvalidArgumentf("tensor shape %v is not compatible with element_shape %v", t.Shape(), shape)
	}
	if ctx.Input(2).Rank() != 1 {
		return status.InvalidArgumentf("Expected lengths to be a vector, received shape: %v", ctx.Input(2).Shape())
	}
	lengths, err := ctx.Ints(2)
	if err != nil {
		return err
	}
	l, err := variant.NewTensorList(dtype, shape, len(lengths))
	if err != nil {
		return err
	}
	if err := l.Split(ctx, t, lengths); err != nil {
		l.Release()
		return err
	}
	return outputList(ctx, l)
}
