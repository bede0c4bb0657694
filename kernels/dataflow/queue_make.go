package dataflow

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/philox"
	"github.com/troupe-run/troupe/queues"
)

// newQueue returns the constructor of the kernel that outputs the handle of a queue of the given kind. A queue without shared_name is
// private to the session and ends with it.
func newQueue(kind queues.Kind) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		options, err := queueOptions(c, kind)
		if err != nil {
			return nil, err
		}
		system := c.Device.Resources().System()
		return kernels.NewSource(c, kernels.KindQueue, kernels.NamedBySession, func(name string) (*queues.Queue, error) {
			o := options
			o.Name = name
			if kind == queues.RandomShuffle {
				o.Random = philox.Numbers(o.Seed, o.Seed2)
			}
			return queues.Spawn(system, o)
		}, func(q *queues.Queue) error { return q.Matches(c.Node.Op, options) })
	}
}

func queueOptions(c *kernels.Construction, kind queues.Kind) (queues.Options, error) {
	o := queues.Options{Kind: kind, Name: c.Node.Name, Pool: c.Device.Pool()}
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
	for _, p := range shapes.GetShape() {
		s, known := tensor.ShapeFromProto(p)
		switch {
		case !known && kind == queues.PaddingFIFO:
			return o, status.InvalidArgumentf("shape <unknown> must have known rank.")
		case !known:
			return o, status.InvalidArgumentf("Shape <unknown> is not fully defined")
		}
		o.Shapes = append(o.Shapes, s)
	}
	switch kind {
	case queues.RandomShuffle:
		err = shuffleOptions(c, &o)
	case queues.Priority:
		o.DTypes = append([]tensor.DType{tensor.Int64}, o.DTypes...)
		if len(o.Shapes) > 0 {
			o.Shapes = append([]tensor.Shape{{}}, o.Shapes...)
		}
	}
	return o, err
}

func shuffleOptions(c *kernels.Construction, o *queues.Options) error {
	a := c.Attrs().Reader()
	least, seed, seed2 := a.Int("min_after_dequeue"), a.Int("seed"), a.Int("seed2")
	if err := a.Err(); err != nil {
		return err
	}
	o.MinAfterDequeue, o.Seed, o.Seed2 = int(least), seed, seed2
	capacity := o.Capacity
	if capacity < 0 {
		capacity = math.MaxInt32
	}
	switch {
	case least < 0:
		return status.InvalidArgumentf("min_after_dequeue %d must be >= 0", least)
	case int(least) >= capacity:
		return status.InvalidArgumentf("min_after_dequeue %d must be < capacity %d", least, capacity)
	}
	return nil
}

// newFakeQueue returns the kernel that makes a queue with a resource handle accessible to older ops.
func newFakeQueue(*kernels.Construction) (any, error) {
	return kernels.Func(func(ctx *kernels.Context) error {
		h, err := ctx.Handle(0)
		if err == nil {
			ctx.SetRef(0, kernels.NameVariable(h.Container, h.Name))
		}
		return err
	}), nil
}
