package kernels

import (
	"runtime"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Resource kinds of kernels in containers.
const (
	KindVariable    = "Var"       // of resource handles
	KindRefVariable = "LegacyVar" // of references; a separate namespace, as in TensorFlow
	KindTemporary   = "TmpVar"
	KindQueue       = "Queue"
	KindBarrier     = "Barrier"
	KindAccumulator = "ConditionalAccumulator" // dense and sparse ones
	KindBuffer      = "Buffer"                 // of Stage
	KindMap         = "StagingMap"
	KindOrderedMap  = "OrderedStagingMap"
	KindSparseMap   = "SparseTensorsMap"
)

// VariableSlot is the local part of a variable's handle: the variable, once it has been found or created. All users of a handle share the
// slot, so only the first of them looks it up in the container.
type VariableSlot struct {
	Resources Resources
	variable  atomic.Pointer[containers.Variable]
	// anonymous holds a variable that is in no container; it is nil for all others.
	anonymous *anonymousVariable
}

// AnonymousContainer is the container named by the handles of anonymous resources. It is always empty: containers.NameAnonymous.
const AnonymousContainer = "Anonymous"

// anonymousVariable is a variable that is reachable only through its handle.
type anonymousVariable struct {
	atomic.Pointer[containers.Variable]
}

func (a *anonymousVariable) get(create func() *containers.Variable) *containers.Variable {
	if v := a.Load(); v != nil || create == nil {
		return v
	}
	a.CompareAndSwap(nil, create())
	return a.Load()
}

// AnonymousSlot returns the slot of a variable that no container holds. The first assignment creates the variable. Its value is released
// when the garbage collector finds the slot unreachable.
func AnonymousSlot(r Resources) *VariableSlot {
	s := &VariableSlot{Resources: r, anonymous: &anonymousVariable{}}
	runtime.AddCleanup(s, func(a *anonymousVariable) {
		if v := a.Load(); v != nil {
			v.Close()
		}
	}, s.anonymous)
	return s
}

// IsAnonymous reports whether local, the local part of a handle, is a resource that is in no container and ends with its handles.
func IsAnonymous(local any) bool {
	switch l := local.(type) {
	case *table.Anonymous:
		return true
	case *VariableSlot:
		return l.anonymous != nil
	}
	return false
}

// Handle returns the resource handle at input i, a scalar. The resource must be on the device that the kernel runs on, as in TensorFlow,
// and in a container that the session may use.
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
	if h.Local == nil && h.Container == AnonymousContainer { // it comes from another task, or returns from there
		found := *h
		found.Local = c.Device.Resources().Anonymous(h.Name)
		h = &found
	}
	if err := c.admitContainer(h.Container, h.Local); err != nil {
		return nil, err
	}
	return h, nil
}

// IsElsewhere reports whether t is the handle of a resource that is not on the device of that full name.
func IsElsewhere(t *tensor.Tensor, device string) bool {
	return t.DType() == tensor.Resource && t.Len() > 0 && t.Handles()[0].Device != device
}

// Variable returns the variable named by the resource handle at input i. It fails with NOT_FOUND if the variable has not been assigned yet
// or was deleted.
func (c *Context) Variable(i int) (*containers.Variable, error) {
	return c.variable(i, nil)
}

// VariableOrNew is like Variable, but creates a missing variable, without a value.
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
	if slot != nil && slot.anonymous != nil {
		var fresh func() *containers.Variable
		if create != nil {
			fresh = func() *containers.Variable { return create(h) }
		}
		if v := slot.anonymous.get(fresh); v != nil {
			return v, nil
		}
		return nil, status.Errorf(status.NotFound, "Resource %s/%s/%s does not exist.", h.Container, h.Name, h.Type)
	}
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

// Named reads the attributes that name a resource: the container, "" for the device's default one, and the name. If shared_name is empty,
// that is the node's name behind the calls that lead to it: two calls of a function do not share what its nodes name.
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
		name = c.Path + c.Node.Name
	}
	return container, name, nil
}

// ErrNotFound returns the error for reading a variable that does not exist.
func ErrNotFound(h *tensor.Handle, cause error) error {
	return status.Errorf(status.FailedPrecondition, "Could not find variable %s. This could mean that the variable has been deleted. "+
		"In TF1, it can also mean the variable is uninitialized. Debug info: container=%s, status error message=%v", h.Name, h.Container, cause)
}
