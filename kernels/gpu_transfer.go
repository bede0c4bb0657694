package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Peer is implemented by accelerators that read each other's memory, so that a tensor moves from one
// to the other without a way through the host.
type Peer interface {
	// Reaches tells whether the device with a full name is an accelerator of this process that can
	// Fetch from this one's memory.
	Reaches(device string) bool
	// Fetch gives a new tensor on this device with the elements of t, which lies on one that
	// Reaches it. The copy follows all work that was given to that device before, and holds a
	// reference to t as long as it needs it. It is called like Upload.
	Fetch(ctx *Context, t *tensor.Tensor) (*tensor.Tensor, error)
}

// A GPU's rows of what moves values between memories.
func init() {
	Register(
		Def{Op: "Const", Device: "GPU", Types: map[string][]tensor.DType{"dtype": plainTypes}, New: newDeviceConst},
		Def{Op: "_Send", Device: "GPU", New: newDeviceSend},
		Def{Op: "_HostSend", Device: "GPU", HostInputs: []string{everything}, New: newSend},
		Def{Op: "_Recv", Device: "GPU", New: newDeviceRecv},
		Def{Op: "_HostRecv", Device: "GPU", HostOutputs: []string{everything}, New: newDeviceRecv},
		Def{Op: "_Arg", Device: "GPU", Types: map[string][]tensor.DType{"T": besideInt32}, New: newDeviceArg},
		Def{Op: "_Arg", Device: "GPU", Types: only("T", tensor.Int32), HostOutputs: []string{everything}, New: newDeviceArg},
		Def{Op: "_DeviceArg", Device: "GPU", New: newDeviceArg},
		Def{Op: "_DeviceRetval", Device: "GPU", New: newRetval},
	)
	onHost("dtype", []tensor.DType{tensor.Int32, tensor.String}, "Const")
	passing("T", nil, nil, "_Retval")
}

// plainTypes are the types of fixed-size elements but int32.
var plainTypes = func() (types []tensor.DType) {
	for _, t := range besideInt32 {
		if t.Size() > 0 {
			types = append(types, t)
		}
	}
	return types
}()

// newDeviceConst makes the kernel of a constant that lies on the device until its session ends.
func newDeviceConst(c *Construction) (any, error) {
	k, err := newConst(c)
	if err != nil {
		return nil, err
	}
	host := k.(*constant).value
	defer host.Release()
	t, err := accelerator(c.Device).Upload(nil, host)
	if err != nil {
		return nil, err
	}
	return &constant{t}, nil
}

// newDeviceSend makes the kernel that sends a tensor of the device's memory: as it is to a device that
// can read that, else by way of the host. What is on the host already, and what is dead, leaves at once.
func newDeviceSend(c *Construction) (any, error) {
	edge, err := transfer(c)
	if err != nil {
		return nil, err
	}
	dst, err := c.Attrs().Str("recv_device")
	if err != nil {
		return nil, err
	}
	a := accelerator(c.Device)
	peer, _ := a.(Peer)
	direct := peer != nil && dst != a.Name() && peer.Reaches(dst)
	return AsyncFunc(func(ctx *Context, done func(error)) {
		send := func(t *tensor.Tensor) {
			done(ctx.Step.Rendezvous.Send(Key{Edge: edge, Tag: ctx.Tag}, dst, t, ctx.Dead))
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

// newDeviceRecv makes the kernel of the receiving end, in either memory: what arrives may lie on the
// host, on this device or on another one.
func newDeviceRecv(c *Construction) (any, error) { return bringing(c, newRecv) }

// newDeviceArg makes the kernel of a fed value or a function's argument, which may come from
// either memory.
func newDeviceArg(c *Construction) (any, error) { return bringing(c, newArg) }

// bringing makes a kernel that brings the one output of another to the memory that it belongs to.
func bringing(c *Construction, receiver func(*Construction) (any, error)) (any, error) {
	k, err := receiver(c)
	if err != nil {
		return nil, err
	}
	receive := k.(AsyncKernel)
	return AsyncFunc(func(ctx *Context, done func(error)) {
		receive.ComputeAsync(ctx, func(err error) {
			t := ctx.Outputs[0].Tensor
			if err != nil || t == nil || ctx.memory(0).Holds(t) {
				done(err)
				return
			}
			ctx.Outputs[0] = Value{}
			bring(ctx, t, done)
		})
	}), nil
}

// bring makes output 0 the tensor t, which it takes over, in the other memory.
func bring(ctx *Context, t *tensor.Tensor, done func(error)) {
	a := accelerator(ctx.Device)
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
		peer, ok := a.(Peer)
		if !ok {
			done(status.Internalf("%s cannot read the memory that a tensor of type %v and shape %v lies in", a.Name(), t.DType(), t.Shape()))
			return
		}
		var err error
		if here, err = peer.Fetch(ctx, t); err != nil {
			done(err)
			return
		}
		if ctx.memory(0).Holds(here) {
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
