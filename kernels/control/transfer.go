package control

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// newArg returns the kernel of a fed value or a function's argument.
func newArg(c *kernels.Construction) (any, error) {
	dtype, index, err := endpoint(c)
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		ctx.Step.Feeds.Feed(index, func(t *tensor.Tensor, err error) {
			switch {
			case err != nil:
			case t == nil:
				err = status.Internalf("Feed %d of node %s has no value", index, ctx.Node.Name)
			case t.DType() != dtype:
				err = status.InvalidArgumentf("Type mismatch: actual %v vs. expect %v", t.DType(), dtype)
				t.Release()
			default:
				ctx.SetOutput(0, t)
			}
			done(err)
		})
	}), nil
}

// newRetval returns the kernel of a fetched value or a function's result. Like a send, it also runs if its input is dead, to report that.
func newRetval(c *kernels.Construction) (any, error) {
	dtype, index, err := endpoint(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if ctx.Dead {
			ctx.Step.Fetches.Fetch(index, nil, true)
			return nil
		}
		t, err := outgoing(ctx)
		if err != nil {
			return err
		}
		if t.DType() != dtype {
			defer t.Release()
			return status.InvalidArgumentf("Type mismatch: actual %v vs. expect %v", t.DType(), dtype)
		}
		ctx.Step.Fetches.Fetch(index, t, false)
		return nil
	}), nil
}

// endpoint reads the attributes of _Arg and _Retval.
func endpoint(c *kernels.Construction) (dtype tensor.DType, index int, err error) {
	if dtype, err = c.Attrs().Type("T"); err != nil {
		return 0, 0, err
	}
	i, err := c.Attrs().Int("index")
	if err == nil && i < 0 {
		err = status.InvalidArgumentf("Attr 'index' of node %s must not be negative: %d", c.Node.Name, i)
	}
	return dtype, int(i), err
}

// outgoing takes the tensor at input 0, reading it if the input is a reference.
func outgoing(ctx *kernels.Context) (*tensor.Tensor, error) {
	if v := ctx.Ref(0); v != nil {
		if t := v.Read(); t != nil {
			return t, nil
		}
		return nil, v.Uninitialized()
	}
	return ctx.Take(0), nil
}

func newSend(c *kernels.Construction) (any, error) {
	edge, err := transfer(c)
	if err != nil {
		return nil, err
	}
	dst, err := c.Attrs().Str("recv_device")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		var t *tensor.Tensor
		if !ctx.Dead {
			var err error
			if t, err = outgoing(ctx); err != nil {
				return err
			}
		}
		return ctx.Step.Rendezvous.Send(kernels.Key{Edge: edge, Tag: ctx.Tag}, dst, t, ctx.Dead)
	}), nil
}

// newRecv returns the kernel of the receiving end. If the value is dead, it leaves its output missing, which the executor treats as a dead
// output.
func newRecv(c *kernels.Construction) (any, error) {
	edge, err := transfer(c)
	if err != nil {
		return nil, err
	}
	dtype, err := c.Attrs().Type("tensor_type")
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		ctx.Step.Rendezvous.Recv(kernels.Key{Edge: edge, Tag: ctx.Tag}, func(t *tensor.Tensor, dead bool, err error) {
			switch {
			case err != nil || dead:
			case t.DType() != dtype:
				err = status.Internalf("Received a tensor of type %v on edge %s, which carries %v", t.DType(), edge, dtype)
				t.Release()
			default:
				ctx.SetOutput(0, t)
			}
			done(err)
		})
	}), nil
}

// transfer reads the attributes that sends and receives share.
func transfer(c *kernels.Construction) (edge string, err error) {
	if v, err := c.Attrs().Bool("client_terminated"); err == nil && v {
		return "", status.Unimplementedf("%s with client_terminated is not supported: node %s", c.Node.Op, c.Node.Name)
	}
	return c.Attrs().Str("tensor_name")
}
