package kernels

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Deletable is a resource of a container that reports whether it was deleted.
type Deletable interface {
	containers.Resource
	// Deleted reports whether Close was called.
	Deleted() bool
}

// naming determines the name of a resource whose node has no shared_name.
type naming int

const (
	// NamedBySession makes the resource private to the session: it ends with the session.
	NamedBySession naming = iota
	// NamedByNode uses the node's name, which lets sessions share the resource.
	NamedByNode
)

// privateNames numbers the resources of kernels that belong to no session, or alone have them.
var privateNames atomic.Int64

// namedSource outputs the handle of a resource that has a name in a container (TensorFlow's ResourceOpKernel). It creates the resource at
// its first run, and again if the resource has been deleted.
type namedSource[R Deletable] struct {
	kind, container, name, device string
	private                       bool
	resources                     Resources
	create                        func(name string) (R, error)
	matches                       func(R) error
	ref                           bool

	mu    sync.Mutex
	have  bool
	found R
	value Value
}

// NewSource returns the kernel of an op that outputs a resource's handle. The handle is a resource handle or, if the op's output is a
// reference, a reference to the two strings that name the resource. create creates a missing resource; it must not block. matches returns
// INVALID_ARGUMENT if a resource made by another node cannot serve this one; a nil matches accepts all.
func NewSource[R Deletable](c *Construction, kind string, unnamed naming, create func(name string) (R, error), matches func(R) error) (any, error) {
	container, name, err := Named(c)
	if err != nil {
		return nil, err
	}
	k := &namedSource[R]{
		kind: kind, container: container, name: name, device: c.Device.Name(), resources: c.Device.Resources(),
		create: create, matches: matches, ref: c.Node.OutTypes[0].IsRef(),
	}
	if k.container == "" {
		k.container = k.resources.DefaultContainer()
	}
	shared, err := c.Attrs().Str("shared_name")
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(shared, "_"):
		return nil, status.InvalidArgumentf("shared_name cannot start with '_':%s", shared)
	case shared == "" && unnamed == NamedBySession:
		k.private = true
		owner := c.Session
		if owner == "" || c.Alone {
			owner = fmt.Sprint(owner, privateNames.Add(1))
		}
		k.name = "_" + owner + "_" + c.Path + c.Node.Name
	}
	return k, nil
}

// Compute outputs the handle.
func (k *namedSource[R]) Compute(ctx *Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.have || k.found.Deleted() {
		if err := k.find(); err != nil {
			return err
		}
	}
	v := k.value
	if v.Tensor != nil {
		v.Tensor.Retain()
	}
	ctx.Outputs[0] = v
	return nil
}

// ResourceName returns the resource's kind, container and name.
func (k *namedSource[R]) ResourceName() (kind, container, name string) {
	return k.kind, k.container, k.name
}

func (k *namedSource[R]) find() error {
	r, err := k.resources.LookupOrCreate(k.container, k.kind, k.name, func() (containers.Resource, error) { return k.create(k.name) })
	if err != nil {
		return err
	}
	found, ok := r.(R)
	if !ok {
		return WrongResource(k.container, k.name, r, found)
	}
	if k.matches != nil {
		if err := k.matches(found); err != nil {
			return err
		}
	}
	k.drop()
	k.have, k.found = true, found
	if k.ref {
		k.value = Value{Ref: NameVariable(k.container, k.name)}
	} else {
		k.value = Value{Tensor: tensor.FromHandle(tensor.Handle{
			Device: k.device, Container: k.container, Name: k.name, Type: k.kind, Local: found,
		})}
	}
	return nil
}

func (k *namedSource[R]) drop() {
	k.value.Release()
	if k.value.Ref != nil {
		k.value.Ref.Close()
	}
	k.have, k.value = false, Value{}
}

// Close deletes a private resource.
func (k *namedSource[R]) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.private && k.have {
		// Another step of the session may have had a kernel for the same node, which deleted the resource.
		if err := k.resources.Delete(k.container, k.kind, k.name); status.CodeOf(err) == status.Aborted {
			k.found.Close()
		}
	}
	k.drop()
}

// NameVariable returns a variable for a reference to a named resource to refer to. It holds the two strings that name it.
func NameVariable(container, name string) *containers.Variable {
	t, err := tensor.FromStrings(tensor.Shape{2}, []string{container, name})
	if err != nil {
		panic(err) // cannot happen: two strings fill a vector of two
	}
	v := containers.NewVariable(name, tensor.String)
	v.Assign(t)
	return v
}

// ResourceAt returns the resource of a kind that input i names: by a resource handle, or by a reference to the two strings of an older op.
// It fails with NOT_FOUND if the resource was deleted.
func ResourceAt[R containers.Resource](ctx *Context, i int, kind string) (R, error) {
	var found R
	var container, name string
	if ref := ctx.Ref(i); ref != nil {
		t := ref.Read()
		if t == nil {
			return found, ref.Uninitialized()
		}
		defer t.Release()
		if t.DType() != tensor.String || t.Len() != 2 {
			return found, status.InvalidArgumentf("A reference that names a resource must hold 2 strings, got %v%v", t.DType(), t.Shape())
		}
		container, name = t.Strings()[0], t.Strings()[1]
		if err := ctx.admitContainer(container, nil); err != nil {
			return found, err
		}
	} else {
		h, err := ctx.Handle(i)
		if err != nil {
			return found, err
		}
		if r, ok := h.Local.(R); ok {
			return r, nil
		}
		container, name = h.Container, h.Name
	}
	r, err := ctx.Device.Resources().Lookup(container, kind, name)
	if err != nil {
		return found, err
	}
	found, ok := r.(R)
	if !ok {
		return found, WrongResource(container, name, r, found)
	}
	return found, nil
}

// WrongResource returns the error for a name that belongs to another kind of resource.
func WrongResource(container, name string, have containers.Resource, want any) error {
	return status.InvalidArgumentf("Resource %s/%s is a %T and not a %T", container, name, have, want)
}
