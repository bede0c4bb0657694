package dataflow

import (
	"fmt"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// handleKind is the form of an array's handle; it depends on the version of the op.
type handleKind int

const (
	resourceHandle handleKind = iota
	stringHandle              // a vector of two strings
	refHandle                 // a reference to such a vector
)

// The first of the two strings of a handle.
const (
	arraysPrefix     = "_tensor_arrays"
	arrayGradsPrefix = "_tensor_array_grads"
)

// set sets output 0 to the handle of a. A resource handle has a second output, the flow: a float that carries no data and only orders ops.
// All ops that use an array take it as their last input.
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

// newTensorArray returns the constructor of a kernel that creates an array in the step's container.
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
	// Graphs from older clients lack the attribute.
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

// newTensorArrayGrad returns the constructor of a kernel that creates the gradient array of an array, or finds the existing one for the
// same source.
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

// arrayFor returns the array at input 0 for an op with elements of type dtype.
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

// arrayReader returns the constructor of an op that reads elements of the type given by attribute dtype.
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

// tensorArrayGather stacks the elements at the indices in input 1.
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

// packElements stacks the elements at the indices, which must have the requested shape.
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

// tensorArrayConcat joins all elements along their first dimension and outputs the length of each.
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
