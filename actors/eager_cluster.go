package actors

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// eagerCluster is a client's cluster. It does not change: a newer view of the cluster is another one.
type eagerCluster struct {
	view         uint64            // of the context, with which it came
	peers        map[string]string // addresses of tasks
	devices      []place.Device    // Local are those of this task
	incarnations map[string]uint64 // of the devices
}

// clusterOf returns the cluster that a client describes, with this task's devices as they are.
func (c *EagerContext) clusterOf(spec *EagerSpec) (*eagerCluster, error) {
	all := &eagerCluster{view: spec.View, peers: spec.Peers, incarnations: map[string]uint64{}}
	add := func(name string, incarnation uint64, own bool) error {
		d, err := place.NewDevice(name, own)
		if err == nil {
			all.devices = append(all.devices, d)
			all.incarnations[d.Name] = incarnation
		}
		return err
	}
	for _, d := range c.Devices(nil) {
		if err := add(d.GetName(), d.GetIncarnation(), true); err != nil {
			return nil, err
		}
	}
	for _, d := range spec.Devices {
		if _, own := c.names.toOwn(d.GetName()); own {
			continue
		}
		if err := add(d.GetName(), d.GetIncarnation(), false); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// check returns an error if there is no device of a name, which may be partial.
func (c *eagerCluster) check(device string) error {
	s, err := place.Parse(device)
	if err == nil && !slices.ContainsFunc(c.devices, func(d place.Device) bool { return s.Matches(d.Spec) }) {
		err = status.InvalidArgumentf("%s unknown device.", device)
	}
	return err
}

// peer returns the address of another task of the client's cluster.
func (c *EagerContext) peer(task string) (string, error) {
	peers := c.cluster.Load().peers
	if address := peers[task]; address != "" {
		return address, nil
	}
	return "", status.Errorf(status.NotFound, "Eager context %d has no task %s; its tasks are %s", c.id, task, strings.Join(sortedKeys(peers), ", "))
}

// eagerArg is what the instance of an op depends on of an input.
type eagerArg struct {
	dtype typespb.DataType
	// at is the device of another task that the tensor lies on; empty if it lies here. home is the device of the resource that a handle
	// stands for; empty for other tensors. Both have the client's names.
	at, home string
}

// args describes the inputs of an op.
func (r *eagerCall) args(inputs []*tensor.Tensor) []eagerArg {
	args := make([]eagerArg, len(inputs))
	for i, t := range inputs {
		a := &args[i]
		if t == nil {
			h := r.away[i]
			a.dtype, a.at = h.GetDtype(), h.GetDevice()
			if a.dtype == typespb.DataType_DT_RESOURCE {
				a.home = a.at
			}
			continue
		}
		a.dtype = t.DType().Proto()
		if t.DType() == tensor.Resource && len(t.Handles()) > 0 {
			a.home = r.context.names.home(t.Handles()[0].Device)
		}
	}
	return args
}

// elsewhere reports whether an input, or the resource that it stands for, is on another task.
func (c *EagerContext) elsewhere(a eagerArg) bool {
	if a.at != "" {
		return true
	}
	_, own := c.names.toOwn(a.home)
	return !own
}

// eagerOutput is an output of an op that stays on another task.
type eagerOutput struct {
	device string // the client's name
	shape  *shapepb.TensorShapeProto
}

// backgroundTime bounds a request to another task whose answer nobody waits for.
const backgroundTime = 10 * time.Second

// enqueueLater sends items to the task of a device without waiting for the answer. It is only logged if the other task does not execute them:
// it may have ended, and its state with it.
func (c *EagerContext) enqueueLater(device string, items ...*corepb.QueueItem) {
	c.later(backgroundTime, func(ctx context.Context) { c.execute(ctx, device, items...) })
}

// later calls f in the background, with a context that ends after a time. It does nothing if the task has ended, or if the context is closed: those on
// the other tasks are closed, too, unless the client replaces just this one.
func (c *EagerContext) later(within time.Duration, f func(ctx context.Context)) {
	if c.session.closed.Load() && !c.replaced.Load() || c.task.life.Err() != nil {
		return
	}
	c.task.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		f(ctx)
	})
}

// execute sends items to the task of a device. An error is only logged.
func (c *EagerContext) execute(ctx context.Context, device string, items ...*corepb.QueueItem) {
	if err := c.enqueue(ctx, device, items...); err != nil {
		c.task.Log.Debug("items for another task were not executed", "context", c.id, "device", device, "error", err)
	}
}

// callerKey is the key of the client in a context for calls to other tasks.
type callerKey struct{}

// calling returns ctx for a call to another task, which counts as one of the context's client.
func (c *EagerContext) calling(ctx context.Context) context.Context {
	return WithEagerCaller(ctx, cmp.Or(c.session.rights.Client, c.client()))
}

// WithEagerCaller returns a context for calls to other tasks on behalf of a client.
func WithEagerCaller(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, callerKey{}, client)
}

// EagerCaller returns the client on whose behalf another task is called; empty for none.
func EagerCaller(ctx context.Context) string {
	client, _ := ctx.Value(callerKey{}).(string)
	return client
}

// enqueue has the context on the task of a device execute items.
func (c *EagerContext) enqueue(ctx context.Context, device string, items ...*corepb.QueueItem) error {
	address, err := c.peer(taskOf(device))
	if err != nil {
		return err
	}
	return c.task.EagerService.Enqueue(c.calling(ctx), address, device, &corepb.EnqueueRequest{ContextId: c.id, Queue: items})
}
