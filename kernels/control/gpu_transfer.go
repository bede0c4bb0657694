package control

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// newDeviceConst returns the kernel of a constant that stays on the device until its session ends.
func newDeviceConst(c *kernels.Construction) (any, error) {
	k, err := newConst(c)
	if err != nil {
		return nil, err
	}
	host := k.(*kernels.Constant).Value
	defer host.Release()
	t, err := kernels.AcceleratorOf(c.Device).Upload(nil, host)
	if err != nil {
		return nil, err
	}
	return &kernels.Constant{Value: t}, nil
}

// newDeviceSend returns the kernel that sends a tensor in the device's memory. It is sent directly to a device that can read that memory,
// otherwise through the host. Host and dead tensors are sent at once.
func newDeviceSend(c *kernels.Construction) (any, error) {
	edge, err := transfer(c)
	if err != nil {
		return nil, err
	}
	dst, err := c.Attrs().Str("recv_device")
	if err != nil {
		return nil, err
	}
	a := kernels.AcceleratorOf(c.Device)
	peer, _ := a.(kernels.Peer)
	direct := peer != nil && dst != a.Name() && peer.Reaches(dst)
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		send := func(t *tensor.Tensor) {
			done(ctx.Step.Rendezvous.Send(kernels.Key{Edge: edge, Tag: ctx.Tag}, dst, t, ctx.Dead))
		}
		if ctx.Dead {
			send(nil)
			return
		}
		t, err := outgoing(ctx)
		switch {
		case err != nil:
			done(err)
		case direct || t.OnHost():
			send(t)
		default:
			a.Download(ctx, t, func(host *tensor.Tensor, err error) {
				if err != nil {
					done(err)
					return
				}
				send(host)
			})
			t.Release()
		}
	}), nil
}

// newDeviceRecv returns the kernel of the receiving end, in either memory. A received tensor may be on the host, on this device or on
// another one.
func newDeviceRecv(c *kernels.Construction) (any, error) { return bringing(c, newRecv) }

// newDeviceArg returns the kernel of a fed value or a function's argument, which may be in either memory.
func newDeviceArg(c *kernels.Construction) (any, error) { return bringing(c, newArg) }

// bringing returns a kernel that moves the single output of another to the memory that it belongs in.
func bringing(c *kernels.Construction, receiver func(*kernels.Construction) (any, error)) (any, error) {
	k, err := receiver(c)
	if err != nil {
		return nil, err
	}
	receive := k.(kernels.AsyncKernel)
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		receive.ComputeAsync(ctx, func(err error) {
			t := ctx.Outputs[0].Tensor
			if err != nil || t == nil || ctx.Memory(0).Holds(t) {
				done(err)
				return
			}
			ctx.Outputs[0] = kernels.Value{}
			bring(ctx, t, done)
		})
	}), nil
}

// bring sets output 0 to t, which it takes over, moved to the other memory.
func bring(ctx *kernels.Context, t *tensor.Tensor, done func(error)) {
	a := kernels.AcceleratorOf(ctx.Device)
	defer t.Release()
	if t.OnHost() {
		up, err := a.Upload(ctx, t)
		if err == nil {
			ctx.SetOutput(0, up)
		}
		done(err)
		return
	}
	here := t
	if !a.Memory().Holds(t) {
		peer, ok := a.(kernels.Peer)
		if !ok {
			done(status.Internalf("%s cannot read the memory that a tensor of type %v and shape %v lies in", a.Name(), t.DType(), t.Shape()))
			return
		}
		var err error
		if here, err = peer.Fetch(ctx, t); err != nil {
			done(err)
			return
		}
		if ctx.Memory(0).Holds(here) {
			ctx.SetOutput(0, here)
			done(nil)
			return
		}
		defer here.Release()
	}
	a.Download(ctx, here, func(host *tensor.Tensor, err error) {
		if err == nil {
			ctx.SetOutput(0, host)
		}
		done(err)
	})
}
