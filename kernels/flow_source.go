package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// constant yields one tensor, which it holds until its session ends.
type constant struct{ value *tensor.Tensor }

func newConst(c *Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	p, err := c.Attrs().Tensor("value")
	if err != nil {
		return nil, err
	}
	t, err := tensor.FromTensorProto(p, tensor.Host)
	if err != nil {
		return nil, err
	}
	if t.DType() != dtype {
		defer t.Release()
		return nil, status.InvalidArgumentf("Type mismatch between value (%v) and dtype (%v)", t.DType(), dtype)
	}
	return &constant{t}, nil
}

func (k *constant) Compute(ctx *Context) error {
	ctx.SetOutput(0, k.value.Retain())
	return nil
}

// Constant is what the kernel yields whenever it runs, for who would rather not run it.
func (k *constant) Constant() *tensor.Tensor { return k.value }

func (k *constant) Close() { k.value.Release() }

// newPlaceholder makes a kernel that fails: a placeholder that is fed is replaced by its feed.
func newPlaceholder(c *Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	shape, known, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
	}
	msg := "You must feed a value for placeholder tensor '" + c.Node.Name + "' with dtype " + dtype.String()
	if known && len(shape) > 0 {
		msg += " and shape " + shape.String()
	}
	return Func(func(*Context) error { return status.New(status.InvalidArgument, msg) }), nil
}
