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

// Deletable is a resource of a container that tells when it was deleted from it.
type Deletable interface {
	containers.Resource
	// Deleted tells whether Close was called.
	Deleted() bool
}

// naming tells what a resource is called whose node has no shared_name.
type naming int

const (
	// NamedBySession makes it the session's own: it ends with the session.
	NamedBySession naming = iota
	// NamedByNode calls it by the node's name, so that sessions share it.
	NamedByNode
)

// privateNames numbers the resources of kernels that belong to no session.
var privateNames atomic.Int64

// namedSource yields the handle of a resource that lives under a name in a container (TensorFlow's
// ResourceOpKernel). It makes the resource at its first run, and again after it was deleted.
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

// NewSource makes the kernel of an op that yields a resource's handle: a resource handle, or a reference
// to the two strings that name it where the op's output is one. create makes the resource where there is
// none; it must not block. matches tells with INVALID_ARGUMENT that a resource made by another node
// cannot serve this one; nil takes all.
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
		if owner == "" {
			owner = fmt.Sprint(privateNames.Add(1))
		}
		k.name = "_" + owner + "_" + c.Node.Name
	}
	return k, nil
}

// Compute yields the handle.
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

// ResourceName is the name under which the resource lives.
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

// Close ends a private resource.
func (k *namedSource[R]) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.private && k.have {
		// The session's other steps may have had a kernel for the same node, which deleted it.
		if err := k.resources.Delete(k.container, k.kind, k.name); status.CodeOf(err) == status.Aborted {
			k.found.Close()
		}
	}
	k.drop()
}

// NameVariable is what a reference to a named resource refers to: the strings that name it.
func NameVariable(container, name string) *containers.Variable {
	t, err := tensor.FromStrings(tensor.Shape{2}, []string{container, name})
	if err != nil {
		panic(err) // two strings fill a vector of two
	}
	v := containers.NewVariable(name, tensor.String)
	v.Assign(t)
	return v
}

// ResourceAt is the resource of a kind that the handle at input i names: a resource handle, or a reference to
// the two strings of an older op. NOT_FOUND where it was deleted.
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

// WrongResource is the error for a name that another kind of resource has.
func WrongResource(container, name string, have containers.Resource, want any) error {
	return status.InvalidArgumentf("Resource %s/%s is a %T and not a %T", container, name, have, want)
}
