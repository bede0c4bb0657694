package kernels

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues"
)

// privateQueues numbers the queues of kernels that belong to no session.
var privateQueues atomic.Int64

// queueSource yields the handle of a queue, which it makes at its first run and again after the
// queue was deleted. A queue without shared_name is the session's own and ends with it.
type queueSource struct {
	container, name string
	private         bool
	device          string
	options         queues.Options
	resources       Resources
	handle          func(*queueSource, *queues.Queue) Value

	mu    sync.Mutex
	queue *queues.Queue
	value Value
}

func newFIFOQueue(handle func(*queueSource, *queues.Queue) Value) func(*Construction) (any, error) {
	return func(c *Construction) (any, error) {
		container, name, err := named(c)
		if err != nil {
			return nil, err
		}
		k := &queueSource{container: container, name: name, device: c.Device.Name(), resources: c.Device.Resources(), handle: handle}
		if k.container == "" {
			k.container = k.resources.DefaultContainer()
		}
		shared, err := c.Attrs().Str("shared_name")
		switch {
		case err != nil:
			return nil, err
		case strings.HasPrefix(shared, "_"):
			return nil, status.InvalidArgumentf("shared_name cannot start with '_':%s", shared)
		case shared == "":
			k.private = true
			owner := c.Session
			if owner == "" {
				owner = fmt.Sprint(privateQueues.Add(1))
			}
			k.name = "_" + owner + "_" + c.Node.Name
		}
		k.options, err = queueOptions(c, k.name)
		return k, err
	}
}

func queueOptions(c *Construction, name string) (queues.Options, error) {
	o := queues.Options{Name: name, Pool: c.Device.Pool()}
	var err error
	if o.DTypes, err = c.Attrs().TypeList("component_types"); err != nil {
		return o, err
	}
	capacity, err := c.Attrs().Int("capacity")
	if err != nil {
		return o, err
	}
	o.Capacity = int(capacity)
	shapes, err := c.Attrs().List("shapes")
	if err != nil {
		return o, err
	}
	for i, p := range shapes.GetShape() {
		s, known := tensor.ShapeFromProto(p)
		if !known {
			return o, status.InvalidArgumentf("Component %d of queue '%s' needs a fully defined shape, not an unknown one", i, name)
		}
		o.Shapes = append(o.Shapes, s)
	}
	return o, nil
}

// Compute yields the handle.
func (k *queueSource) Compute(ctx *Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queue == nil || ended(k.queue) {
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

func (k *queueSource) find() error {
	r, err := k.resources.LookupOrCreate(k.container, kindQueue, k.name, func() (containers.Resource, error) {
		return queues.Spawn(k.resources.System(), k.options)
	})
	if err != nil {
		return err
	}
	q, ok := r.(*queues.Queue)
	if !ok {
		return status.InvalidArgumentf("Resource %s/%s is not a FIFOQueue", k.container, k.name)
	}
	if err := q.Matches(k.options); err != nil {
		return err
	}
	k.drop()
	k.queue, k.value = q, k.handle(k, q)
	return nil
}

func (k *queueSource) drop() {
	k.value.Release()
	if k.value.Ref != nil {
		k.value.Ref.Close()
	}
	k.queue, k.value = nil, Value{}
}

// Close ends a private queue.
func (k *queueSource) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.private && k.queue != nil {
		// The session's other steps may have had a kernel for the same node, which deleted it.
		if err := k.resources.Delete(k.container, kindQueue, k.name); status.CodeOf(err) == status.Aborted {
			k.queue.Close()
		}
	}
	k.drop()
}

// ended tells whether the queue was deleted.
func ended(q *queues.Queue) bool {
	select {
	case <-q.Done():
		return true
	default:
		return false
	}
}

// resourceHandle is the queue's handle for the V2 ops.
func resourceHandle(k *queueSource, q *queues.Queue) Value {
	return Value{Tensor: tensor.FromHandle(tensor.Handle{
		Device: k.device, Container: k.container, Name: k.name, Type: kindQueue, Local: q,
	})}
}

// refHandle is the queue's handle for the old ops: a reference to the strings that name it.
func refHandle(k *queueSource, _ *queues.Queue) Value {
	return Value{Ref: nameVariable(k.container, k.name)}
}

func nameVariable(container, name string) *containers.Variable {
	t, err := tensor.FromStrings(tensor.Shape{2}, []string{container, name})
	if err != nil {
		panic(err) // two strings fill a vector of two
	}
	v := containers.NewVariable(name, tensor.String)
	v.Assign(t)
	return v
}

// newFakeQueue makes the kernel that gives old ops access to a queue that has a resource handle.
func newFakeQueue(*Construction) (any, error) {
	return Func(func(ctx *Context) error {
		h, err := ctx.Handle(0)
		if err == nil {
			ctx.SetRef(0, nameVariable(h.Container, h.Name))
		}
		return err
	}), nil
}
