package kernels

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// optional is what a variant scalar holds for TensorFlow's optional values: a tuple of tensors or
// nothing. It is not changed after it was made.
type optional struct {
	refs  atomic.Int32
	has   bool
	list  []*tensor.Tensor
	depth int // see tensorList
}

// Retain adds a reference.
func (o *optional) Retain() { o.refs.Add(1) }

// Release drops a reference, after the last one the tensors'.
func (o *optional) Release() {
	if o.refs.Add(-1) == 0 {
		releaseTensors(o.list)
		o.list = nil
	}
}

// nested is how deep the tensors go.
func (o *optional) nested() int { return o.depth }

// newOptional takes over references to the tensors.
func newOptional(has bool, list []*tensor.Tensor) *optional {
	o := &optional{has: has, list: list}
	for _, t := range list {
		o.depth = max(o.depth, nesting(t))
	}
	o.refs.Store(1)
	return o
}

func optionalFromValue(ctx *Context) error {
	for i := range ctx.Inputs {
		if nesting(ctx.Input(i)) > maxNesting {
			return tooDeep()
		}
	}
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err != nil {
		return err
	}
	list := make([]*tensor.Tensor, len(ctx.Inputs))
	for i := range list {
		list[i] = ctx.Take(i)
	}
	out.Variants()[0] = newOptional(true, list)
	return nil
}

func optionalNone(ctx *Context) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err == nil {
		out.Variants()[0] = newOptional(false, nil)
	}
	return err
}

func optionalInput(ctx *Context) (*optional, error) {
	t := ctx.Input(0)
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, status.InvalidArgumentf("Input to %s must be a scalar variant, not %v%v", ctx.Node.Op, t.DType(), t.Shape())
	}
	o, ok := t.Variants()[0].(*optional)
	if !ok {
		return nil, status.InvalidArgumentf("Input to %s must be an OptionalVariant, saw: '%T'", ctx.Node.Op, t.Variants()[0])
	}
	return o, nil
}

func optionalHasValue(ctx *Context) error {
	o, err := optionalInput(ctx)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Bool, o.has))
	}
	return err
}

func newOptionalGetValue(c *Construction) (any, error) {
	types, err := c.Attrs().TypeList("output_types")
	if err != nil {
		return nil, err
	}
	list, err := c.Attrs().List("output_shapes")
	if err != nil {
		return nil, err
	}
	var shapes []partialShape
	for _, p := range list.GetShape() {
		s, known := tensor.ShapeFromProto(p)
		shapes = append(shapes, partialShape{s, known})
	}
	if len(shapes) != len(types) {
		return nil, status.InvalidArgumentf("output_types and output_shapes must be same length, got %d and %d", len(types), len(shapes))
	}
	return Func(func(ctx *Context) error {
		o, err := optionalInput(ctx)
		if err != nil {
			return err
		}
		if !o.has {
			return status.InvalidArgumentf("The given optional does not have a value.")
		}
		if len(o.list) != len(types) || len(o.list) != len(ctx.Outputs) {
			return status.InvalidArgumentf("The given optional has %d components, expected %d", len(o.list), len(types))
		}
		for i, t := range o.list {
			if t.DType() != types[i] {
				return status.InvalidArgumentf("The given optional does not match the expected type for component %d. Expected: %v. Actual: %v.", i, types[i], t.DType())
			}
			if !shapes[i].admits(t.Shape()) {
				return status.InvalidArgumentf("The given optional does not match the expected shape for component %d. Expected: %v. Actual: %v.", i, shapes[i], t.Shape())
			}
		}
		for i, t := range o.list {
			ctx.SetOutput(i, t.Retain())
		}
		return nil
	}), nil
}
