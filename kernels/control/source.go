package control

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

func newConst(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	p, err := c.Attrs().Tensor("value")
	if err != nil {
		return nil, err
	}
	t, err := tensor.FromTensorProto(p, c.Device.Pool())
	if status.CodeOf(err) == status.InvalidArgument {
		err = status.InvalidArgumentf("Cannot parse tensor from proto: %s", status.From(err).Message)
	}
	if err != nil {
		return nil, err
	}
	if t.DType() != dtype {
		defer t.Release()
		return nil, status.InvalidArgumentf("Type mismatch between value (%v) and dtype (%v)", t.DType(), dtype)
	}
	return &kernels.Constant{Value: t}, nil
}

// newPlaceholder returns a kernel that fails: a placeholder that is fed is replaced by its feed.
func newPlaceholder(c *kernels.Construction) (any, error) {
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
	return kernels.Func(func(*kernels.Context) error { return status.New(status.InvalidArgument, msg) }), nil
}
