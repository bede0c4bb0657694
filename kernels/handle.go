package kernels

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// The kinds under which kernels keep resources in containers.
const (
	KindVariable    = "Var"       // of resource handles
	KindRefVariable = "LegacyVar" // of references; a namespace of its own, as in TensorFlow
	KindTemporary   = "TmpVar"
	KindQueue       = "Queue"
	KindSparseMap   = "SparseTensorsMap"
)

// VariableSlot is what a variable's handle refers to locally: the variable, once it was found
// or made. All users of one handle share it, so that only the first of them asks the container.
type VariableSlot struct {
	Resources Resources
	variable  atomic.Pointer[containers.Variable]
}

// Handle is the resource handle at input i, a scalar. The resource must live on the device that
// the kernel runs on, as in TensorFlow.
func (c *Context) Handle(i int) (*tensor.Handle, error) {
	t := c.Input(i)
	if t.DType() != tensor.Resource {
		return nil, status.InvalidArgumentf("Input %d of %s must be a resource handle, not %v", i, c.Node.Op, t.DType())
	}
	if t.Len() == 0 {
		return nil, status.InvalidArgumentf("Empty resource handle")
	}
	h := &t.Handles()[0]
	if here := c.Device.Name(); h.Device != here {
		return nil, status.InvalidArgumentf("Trying to access resource %s located in device %s from device %s", h.Name, h.Device, here)
	}
	return h, nil
}

// Variable is the variable that the resource handle at input i names; NOT_FOUND where it was
// not assigned yet or was deleted.
func (c *Context) Variable(i int) (*containers.Variable, error) {
	return c.variable(i, nil)
}

// VariableOrNew is Variable, but makes the variable, without a value, where there is none.
func (c *Context) VariableOrNew(i int, dtype tensor.DType) (*containers.Variable, error) {
	return c.variable(i, func(h *tensor.Handle) *containers.Variable { return containers.NewVariable(h.Name, dtype) })
}

func (c *Context) variable(i int, create func(*tensor.Handle) *containers.Variable) (*containers.Variable, error) {
	h, err := c.Handle(i)
	if err != nil {
		return nil, err
	}
	resources := c.Device.Resources()
	slot, _ := h.Local.(*VariableSlot)
	if slot != nil && slot.Resources == resources {
		if v := slot.variable.Load(); v != nil && !v.Deleted() {
			return v, nil
		}
	}
	var r containers.Resource
	if create == nil {
		r, err = resources.Lookup(h.Container, KindVariable, h.Name)
	} else {
		r, err = resources.LookupOrCreate(h.Container, KindVariable, h.Name, func() (containers.Resource, error) { return create(h), nil })
	}
	if err != nil {
		return nil, err
	}
	v, ok := r.(*containers.Variable)
	if !ok {
		return nil, status.InvalidArgumentf("Resource %s/%s is not a variable", h.Container, h.Name)
	}
	if slot != nil && slot.Resources == resources {
		slot.variable.Store(v)
	}
	return v, nil
}

// Named reads the attributes that name a resource: the container, "" for the device's default
// one, and the name, which is the node's where no shared_name is given.
func Named(c *Construction) (container, name string, err error) {
	if container, err = c.Attrs().Str("container"); err != nil {
		return "", "", err
	}
	if err = containers.ValidName(container); err != nil {
		return "", "", err
	}
	if name, err = c.Attrs().Str("shared_name"); err != nil {
		return "", "", err
	}
	if name == "" {
		name = c.Node.Name
	}
	return container, name, nil
}

// ErrNotFound is what reading a variable that is not there ends with.
func ErrNotFound(h *tensor.Handle, cause error) error {
	return status.Errorf(status.FailedPrecondition, "Could not find variable %s. This could mean that the variable has been deleted. "+
		"In TF1, it can also mean the variable is uninitialized. Debug info: container=%s, status error message=%v", h.Name, h.Container, cause)
}
