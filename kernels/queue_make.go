package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/queues"
)

// newFIFOQueue makes the kernel that yields a queue's handle. A queue without shared_name is the session's
// own and ends with it.
func newFIFOQueue(c *Construction) (any, error) {
	options, err := queueOptions(c)
	if err != nil {
		return nil, err
	}
	system := c.Device.Resources().System()
	return newSource(c, kindQueue, namedBySession, func(name string) (*queues.Queue, error) {
		o := options
		o.Name = name
		return queues.Spawn(system, o)
	}, func(q *queues.Queue) error { return q.Matches(options) })
}

func queueOptions(c *Construction) (queues.Options, error) {
	o := queues.Options{Name: c.Node.Name, Pool: c.Device.Pool()}
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
			return o, status.InvalidArgumentf("Component %d of queue '%s' needs a fully defined shape, not an unknown one", i, o.Name)
		}
		o.Shapes = append(o.Shapes, s)
	}
	return o, nil
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
