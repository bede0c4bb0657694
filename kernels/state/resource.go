package state

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// newVarHandle returns the kernel that outputs a variable's handle. The first assignment creates the variable. If shared_name is the
// anonymous name, each execution of the node outputs the handle of a new variable.
func newVarHandle(c *kernels.Construction) (any, error) {
	container, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	shape, known, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
	}
	if name == graph.AnonymousName {
		return kernels.Func(func(ctx *kernels.Context) error {
			r := ctx.Device.Resources()
			slot := kernels.AnonymousSlot(r)
			ctx.SetOutput(0, tensor.FromHandle(tensor.Handle{
				Device: ctx.Device.Name(), Container: kernels.AnonymousContainer, Name: containers.NameAnonymous(r, "Var", slot),
				Type: kernels.KindVariable, DType: dtype, Shape: shape, KnownShape: known, Local: slot,
			}))
			return nil
		}), nil
	}
	if container == "" {
		container = c.Device.Resources().DefaultContainer()
	}
	return &kernels.Constant{Value: tensor.FromHandle(tensor.Handle{
		Device: c.Device.Name(), Container: container, Name: name, Type: kernels.KindVariable, DType: dtype, Shape: shape, KnownShape: known,
		Local: &kernels.VariableSlot{Resources: c.Device.Resources()},
	})}, nil
}

func newReadVariable(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t, err := readVariable(ctx, 0)
		if err != nil {
			return err
		}
		if t.DType() != dtype {
			defer t.Release()
			return status.InvalidArgumentf("Trying to read variable with wrong dtype. Expected %v got %v", dtype, t.DType())
		}
		ctx.SetOutput(0, t)
		return nil
	}), nil
}

// readVariable reads the variable at input i without copying its memory; the caller owns the reference.
func readVariable(ctx *kernels.Context, i int) (*tensor.Tensor, error) {
	v, err := ctx.Variable(i)
	if err == nil {
		if t := v.Read(); t != nil {
			return t, nil
		}
		err = v.Uninitialized()
	}
	return nil, variable.Unreadable(ctx, i, err)
}

func newAssignVariable(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	// Graphs from older clients lack validate_shape; it is off by default.
	validate, _ := c.Attrs().Bool("validate_shape")
	return kernels.Func(func(ctx *kernels.Context) error {
		value := ctx.Input(1)
		if value.DType() != dtype {
			return status.InvalidArgumentf("Variable and value dtypes don't match; respectively, %v and %v", dtype, value.DType())
		}
		v, err := ctx.VariableOrNew(0, dtype)
		if err != nil {
			return err
		}
		if v.DType() != dtype {
			return status.InvalidArgumentf("Trying to assign variable with wrong dtype. Expected %v got %v", v.DType(), dtype)
		}
		return v.Replace(ctx.Changes(), func(old *tensor.Tensor) (*tensor.Tensor, error) {
			if validate && old != nil && !old.Shape().Equal(value.Shape()) {
				return nil, status.InvalidArgumentf("Trying to assign to variable with tensor with wrong shape. Expected %v got %v", old.Shape(), value.Shape())
			}
			return ctx.Take(1), nil
		})
	}), nil
}

// assignUpdate returns the constructor of a kernel that adds to a resource variable, or subtracts from it, in place.
func assignUpdate(op update.Op) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		dtype, err := c.Attrs().Type("dtype")
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			v, err := ctx.Variable(0)
			if err != nil {
				return err
			}
			value := ctx.Input(1)
			if v.DType() != value.DType() || v.DType() != dtype {
				return status.InvalidArgumentf("DType of variable handle and value does not match.")
			}
			return update.RewriteVariable(ctx, v, op, func(have, got tensor.Shape) error {
				return status.InvalidArgumentf("Cannot update variable with shape %v using a Tensor with shape %v, shapes must be equal.", have, got)
			})
		}), nil
	}
}

func varIsInitialized(ctx *kernels.Context) error {
	v, err := ctx.Variable(0)
	if err != nil && status.CodeOf(err) != status.NotFound {
		return err
	}
	ctx.SetOutput(0, tensor.Scalar(tensor.Bool, err == nil && v.Initialized()))
	return nil
}

func newVariableShape(c *kernels.Construction) (any, error) {
	write, err := args.ShapeWriter(c, "out_type")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		v, err := ctx.Variable(0)
		if err != nil {
			return err
		}
		t := v.Read()
		if t == nil {
			return v.Uninitialized()
		}
		defer t.Release()
		return write(ctx, 0, t.Shape())
	}), nil
}

// newDestroyResource returns the kernel that deletes whatever a handle names.
func newDestroyResource(c *kernels.Construction) (any, error) {
	ignore, err := c.Attrs().Bool("ignore_lookup_error")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		h, err := ctx.Handle(0)
		if err != nil {
			return err
		}
		if kernels.IsAnonymous(h.Local) {
			return nil // ends with its handles
		}
		err = ctx.Device.Resources().Delete(h.Container, h.Type, h.Name)
		if ignore && status.CodeOf(err) == status.NotFound {
			return nil
		}
		return err
	}), nil
}

// disableCopyOnRead has nothing to disable: reads never copy, and updates copy when necessary. It only checks that the variable exists.
func disableCopyOnRead(ctx *kernels.Context) error {
	t, err := readVariable(ctx, 0)
	if err == nil {
		t.Release()
	}
	return err
}
