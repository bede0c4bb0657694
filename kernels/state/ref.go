package state

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// newRefVariable returns the kernel that outputs a reference to a variable. It looks the variable up once, and again if it was deleted.
func newRefVariable(c *kernels.Construction) (any, error) {
	container, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(name, "_") {
		return nil, status.InvalidArgumentf("shared_name cannot start with '_':%s", name)
	}
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	shape, known, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
	}
	var found atomic.Pointer[containers.Variable]
	return kernels.Func(func(ctx *kernels.Context) error {
		v := found.Load()
		if v == nil || v.Deleted() {
			r, err := ctx.Device.Resources().LookupOrCreate(container, kernels.KindRefVariable, name, func() (containers.Resource, error) {
				v := containers.NewVariable(name, dtype)
				v.Shape, v.KnownShape = shape, known
				return v, nil
			})
			if err != nil {
				return err
			}
			v = r.(*containers.Variable)
			if v.DType() != dtype {
				return status.InvalidArgumentf("Variable %s holds elements of type %v, not %v", name, v.DType(), dtype)
			}
			found.Store(v)
		}
		ctx.SetRef(0, v)
		return nil
	}), nil
}

// newTemporaryVariable returns the kernel of a variable in its step's container. It exists until a DestroyTemporaryVariable takes its
// value, or until the step ends. It starts with zeros.
func newTemporaryVariable(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	shape, known, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
	}
	if _, err := shape.NumElements(); err != nil || !known {
		return nil, status.InvalidArgumentf("The shape of a temporary variable must be fully known, not %v", shape)
	}
	name, err := c.Attrs().Str("var_name")
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = c.Node.Name
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		var mine *containers.Variable
		_, err := ctx.Device.Resources().LookupOrCreate(ctx.Step.Container, kernels.KindTemporary, temporaryName(ctx, name), func() (containers.Resource, error) {
			t, err := layout.Zeros(ctx, ctx.Device.Memory(), dtype, shape)
			if err != nil {
				return nil, err
			}
			mine = containers.NewVariable(name, dtype)
			mine.Assign(t)
			return mine, nil
		})
		if err != nil {
			return err
		}
		if mine == nil {
			return status.Errorf(status.AlreadyExists, "Resource %s/%s/%s", ctx.Step.Container, temporaryName(ctx, name), kernels.KindTemporary)
		}
		ctx.SetRef(0, mine)
		return nil
	}), nil
}

// temporaryName returns a separate name for each iteration of a loop.
func temporaryName(ctx *kernels.Context, name string) string {
	if ctx.Tag == (kernels.Tag{}) {
		return name
	}
	return fmt.Sprintf("%s/frame:%d/iter:%d", name, ctx.Tag.Frame, ctx.Tag.Iter)
}

func newDestroyTemporaryVariable(c *kernels.Construction) (any, error) {
	name, err := c.Attrs().Str("var_name")
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, status.InvalidArgumentf("Missing var_name attribute")
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		v := ctx.Ref(0)
		t := v.Read()
		if t == nil {
			return v.Uninitialized()
		}
		ctx.SetOutput(0, t)
		return ctx.Device.Resources().Delete(ctx.Step.Container, kernels.KindTemporary, temporaryName(ctx, name))
	}), nil
}

func isVariableInitialized(ctx *kernels.Context) error {
	ctx.SetOutput(0, tensor.Scalar(tensor.Bool, ctx.Ref(0).Initialized()))
	return nil
}

// newAssign returns the kernel that assigns a value to a reference variable. The value's memory is taken over or shared, never copied,
// regardless of use_locking: in-place updates copy shared memory.
func newAssign(c *kernels.Construction) (any, error) {
	validate, err := c.Attrs().Bool("validate_shape")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		v, value := ctx.Ref(0), ctx.Input(1)
		if v.DType() != value.DType() {
			return status.InvalidArgumentf("Assign requires a value of type %v, not %v", v.DType(), value.DType())
		}
		err := v.Replace(ctx.Changes(), func(old *tensor.Tensor) (*tensor.Tensor, error) {
			shape, known := v.Shape, v.KnownShape
			if old != nil {
				shape, known = old.Shape(), true
			}
			if validate && known && !value.Shape().Compatible(shape) {
				return nil, status.InvalidArgumentf("Assign requires shapes of both tensors to match. lhs shape= %v rhs shape= %v", shape, value.Shape())
			}
			return ctx.Take(1), nil
		})
		if err == nil {
			ctx.Pass(0, 0)
		}
		return err
	}), nil
}

// refUpdate returns the constructor for AssignAdd and AssignSub. Updates of one variable exclude each other with and without use_locking.
func refUpdate(op update.Op) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		dtype, err := c.Attrs().Type("T")
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			v, value := ctx.Ref(0), ctx.Input(1)
			if v.DType() != dtype || value.DType() != dtype {
				return status.InvalidArgumentf("%s requires elements of type %v, not %v and %v", ctx.Node.Op, dtype, v.DType(), value.DType())
			}
			err := update.RewriteVariable(ctx, v, op, func(have, got tensor.Shape) error {
				return status.InvalidArgumentf("Parameters and update must be the same size")
			})
			if err == nil {
				ctx.Pass(0, 0)
			}
			return err
		}), nil
	}
}

// newCountUpTo returns the constructor of a kernel that increments a scalar variable and outputs its previous value, until the limit is
// reached: then it fails with OUT_OF_RANGE. find returns the variable.
func newCountUpTo(find func(*kernels.Context) (*containers.Variable, error)) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		limit, err := c.Attrs().Int("limit")
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			v, err := find(ctx)
			if err != nil {
				return err
			}
			return variable.Update(ctx, v, func(t *tensor.Tensor) error {
				if t.Rank() != 0 {
					return status.InvalidArgumentf("input is not a scalar: %v", t.Shape())
				}
				if t.DType() == tensor.Int32 {
					return countUp(ctx, tensor.Of[int32](t), limit)
				}
				return countUp(ctx, tensor.Of[int64](t), limit)
			})
		}), nil
	}
}

func countUp[T int32 | int64](ctx *kernels.Context, counter []T, limit int64) error {
	before := counter[0]
	if int64(before) >= limit {
		return status.Errorf(status.OutOfRange, "Reached limit of %d", limit)
	}
	counter[0]++
	ctx.SetOutput(0, tensor.Scalar(element.DTypeOf[T](), before))
	return nil
}

func refOf(ctx *kernels.Context) (*containers.Variable, error) { return ctx.Ref(0), nil }

func resourceOf(ctx *kernels.Context) (*containers.Variable, error) { return ctx.Variable(0) }
