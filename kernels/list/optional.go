package list

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

func optionalFromValue(ctx *kernels.Context) error {
	for i := range ctx.Inputs {
		if variant.Nesting(ctx.Input(i)) > variant.MaxNesting {
			return variant.TooDeep()
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
	out.Variants()[0] = variant.NewOptional(true, list)
	return nil
}

func optionalNone(ctx *kernels.Context) error {
	out, err := ctx.Allocate(0, tensor.Variant, nil)
	if err == nil {
		out.Variants()[0] = variant.NewOptional(false, nil)
	}
	return err
}

func optionalInput(ctx *kernels.Context) (*variant.Optional, error) {
	t := ctx.Input(0)
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, status.InvalidArgumentf("Input to %s must be a scalar variant, not %v%v", ctx.Node.Op, t.DType(), t.Shape())
	}
	o, ok := t.Variants()[0].(*variant.Optional)
	if !ok {
		return nil, status.InvalidArgumentf("Input to %s must be an OptionalVariant, saw: '%T'", ctx.Node.Op, t.Variants()[0])
	}
	return o, nil
}

func optionalHasValue(ctx *kernels.Context) error {
	o, err := optionalInput(ctx)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Bool, o.Has))
	}
	return err
}

func newOptionalGetValue(c *kernels.Construction) (any, error) {
	types, err := c.Attrs().TypeList("output_types")
	if err != nil {
		return nil, err
	}
	list, err := c.Attrs().List("output_shapes")
	if err != nil {
		return nil, err
	}
	var wanted []shapes.PartialShape
	for _, p := range list.GetShape() {
		s, known := tensor.ShapeFromProto(p)
		wanted = append(wanted, shapes.PartialShape{Dims: s, Known: known})
	}
	if len(wanted) != len(types) {
		return nil, status.InvalidArgumentf("output_types and output_shapes must be same length, got %d and %d", len(types), len(wanted))
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		o, err := optionalInput(ctx)
		if err != nil {
			return err
		}
		if !o.Has {
			return status.InvalidArgumentf("The given optional does not have a value.")
		}
		if len(o.List) != len(types) || len(o.List) != len(ctx.Outputs) {
			return status.InvalidArgumentf("The given optional has %d components, expected %d", len(o.List), len(types))
		}
		for i, t := range o.List {
			if t.DType() != types[i] {
				return status.InvalidArgumentf("The given optional does not match the expected type for component %d. Expected: %v. Actual: %v.", i, types[i], t.DType())
			}
			if !wanted[i].Admits(t.Shape()) {
				return status.InvalidArgumentf("The given optional does not match the expected shape for component %d. Expected: %v. Actual: %v.", i, wanted[i], t.Shape())
			}
		}
		for i, t := range o.List {
			ctx.SetOutput(i, t.Retain())
		}
		return nil
	}), nil
}
