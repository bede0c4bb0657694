package dataset

import (
	"strconv"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// Holder is a resource whose value datasets share.
type Holder struct {
	value   any
	deleted atomic.Bool
}

// NewHolder returns a resource of a value. If the value has a method Release, it is called when the resource is deleted.
func NewHolder(value any) *Holder { return &Holder{value: value} }

// Close marks the resource as deleted.
func (h *Holder) Close() {
	h.deleted.Store(true)
	if r, ok := h.value.(interface{ Release() }); ok {
		r.Release()
	}
}

// ResourceOf returns the resource that the handle at input i names; the zero value if there is no such resource on this device, as for the
// handles of the Dummy ops, and for those of a dataset that came from another task as a graph.
func ResourceOf[V any](in *Inputs, i int, kind string) V {
	var none V
	if kernels.IsElsewhere(in.Context.Input(i), in.Context.Device.Name()) {
		return none
	}
	h, err := in.Context.Handle(i)
	if status.CodeOf(err) == status.NotFound {
		return none // the handle belongs to a step that has ended
	}
	if err != nil {
		in.Fail(err)
		return none
	}
	r, ok := h.Local.(*Holder)
	if !ok || r.deleted.Load() {
		found, err := in.Context.Device.Resources().Lookup(h.Container, kind, h.Name)
		if err != nil {
			return none
		}
		r, ok = found.(*Holder)
		if !ok {
			return none
		}
	}
	v, _ := r.value.(V)
	return v
}

// anonymous numbers the resources without a name.
var anonymous atomic.Int64

// keep puts a resource without a name into the step's container, with which it ends, and returns its handle.
func keep(ctx *kernels.Context, kind string, r containers.Resource) (*tensor.Tensor, error) {
	name := "_anonymous_" + strconv.FormatInt(anonymous.Add(1), 10)
	if _, err := ctx.Device.Resources().LookupOrCreate(ctx.Step.Container, kind, name, func() (containers.Resource, error) { return r, nil }); err != nil {
		return nil, err
	}
	return tensor.FromHandle(tensor.Handle{Device: ctx.Device.Name(), Container: ctx.Step.Container, Name: name, Type: kind, Local: r}), nil
}

// OutputAnonymous sets output 0 to the handle of a resource that ends with the step, and output 1 to a variant.
func OutputAnonymous(ctx *kernels.Context, kind string, r containers.Resource) error {
	h, err := keep(ctx, kind, r)
	if err != nil {
		return err
	}
	ctx.SetOutput(0, h)
	if len(ctx.Outputs) > 1 {
		_, err = ctx.Allocate(1, tensor.Variant, nil)
	}
	return err
}

// DeleteResource deletes the resource of the given kind whose handle is input 0.
func DeleteResource(kind string) func(ctx *kernels.Context) error {
	return func(ctx *kernels.Context) error {
		h, err := ctx.Handle(0)
		if err != nil {
			return err
		}
		return ctx.Device.Resources().Delete(h.Container, kind, h.Name)
	}
}
