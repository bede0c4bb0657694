package variable

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

// View calls look with the value of the variable at input i, borrowed for the call. Writers wait until look returns.
func View(ctx *kernels.Context, i int, look func(*tensor.Tensor) error) error {
	v, err := ctx.Variable(i)
	if err != nil {
		return Unreadable(ctx, i, err)
	}
	there := false
	err = v.View(func(t *tensor.Tensor) error {
		there = true
		return look(t)
	})
	if !there {
		return Unreadable(ctx, i, err)
	}
	return err
}

// Unreadable converts the error of reading the variable at input i.
func Unreadable(ctx *kernels.Context, i int, err error) error {
	if h, bad := ctx.Handle(i); bad == nil && status.CodeOf(err) != status.InvalidArgument {
		return kernels.ErrNotFound(h, err)
	}
	return err
}

// Update is Variable.Update for any element type and memory. change is finished even if the step ends. Elements that are Go values are
// always copied first, since a tensor does not know whether it shares them.
func Update(ctx *kernels.Context, v *containers.Variable, change func(*tensor.Tensor) error) error {
	if v.DType().Size() > 0 {
		return v.Rewrite(ctx.Changes(), ctx.Device.Memory(), nil, func(next, old *tensor.Tensor) error {
			if next != old {
				layout.CopyAll(ctx, next, old)
			}
			return ctx.Finish(func() error { return change(next) })
		})
	}
	return v.Replace(ctx.Changes(), func(old *tensor.Tensor) (*tensor.Tensor, error) {
		if old == nil {
			return nil, v.Uninitialized()
		}
		t, err := old.Clone(ctx.Device.Pool())
		if err != nil {
			return nil, err
		}
		if err := ctx.Finish(func() error { return change(t) }); err != nil {
			t.Release()
			return nil, err
		}
		return t, nil
	})
}
