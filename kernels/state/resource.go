package state

import (
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// anonymousName is the shared_name by which TensorFlow's eager mode asks for a variable that
// no container knows and that ends with its last handle.
const anonymousName = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"

// newVarHandle makes the kernel that yields a variable's handle. The variable itself is made by
// the first assignment.
func newVarHandle(c *kernels.Construction) (any, error) {
	container, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	if name == anonymousName {
		return nil, status.Unimplementedf("VarHandleOp with an anonymous shared_name is not supported")
	}
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	shape, known, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
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

// readVariable reads the variable behind input i; the caller owns the reference. Memory is shared.
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
	// Graphs of older clients have no validate_shape; it is off by default.
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
		return v.Replace(func(old *tensor.Tensor) (*tensor.Tensor, error) {
			if validate && old != nil && !old.Shape().Equal(value.Shape()) {
				return nil, status.InvalidArgumentf("Trying to assign to variable with tensor with wrong shape. Expected %v got %v", old.Shape(), value.Shape())
			}
			return ctx.Take(1), nil
		})
	}), nil
}

// assignUpdate makes the kernel that adds to a resource variable, or subtracts from it, in place.
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

// newDestroyResource makes the kernel that deletes whatever a handle names.
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
		if _, ok := h.Local.(*table.Anonymous); ok {
			return nil // it ends with its handles
		}
		err = ctx.Device.Resources().Delete(h.Container, h.Type, h.Name)
		if ignore && status.CodeOf(err) == status.NotFound {
			return nil
		}
		return err
	}), nil
}

// disableCopyOnRead has nothing to disable: reads never copy, updates do where they must. But
// the variable has to be there.
func disableCopyOnRead(ctx *kernels.Context) error {
	t, err := readVariable(ctx, 0)
	if err == nil {
		t.Release()
	}
	return err
}
