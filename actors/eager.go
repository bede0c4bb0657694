package actors

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	devpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/device_attributes_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// EagerSpec is what a client says about an eager context.
type EagerSpec struct {
	// ID names the context on all tasks. View counts the changes of its cluster.
	ID, View uint64
	// Task is the client's name for this task, such as /job:worker/replica:0/task:0. The context's devices have names that begin with it.
	Task string
	// Peers are the addresses of the cluster's tasks by name, as the client declares them.
	Peers map[string]string
	// Devices are the cluster's devices under the client's names.
	Devices []*devpb.DeviceAttributes
	// KeepAlive is how long the context lives after its last call, whatever becomes of the client's connections; 0 means that it lives
	// as a session does.
	KeepAlive time.Duration
	// Config is the configuration of the context's steps; nil for the defaults.
	Config *corepb.ConfigProto
	// Isolated gives the context resources of its own.
	Isolated bool
}

// Puller fetches a tensor that a device of another task sends: the client side of RecvTensor. dead means that the branch that would send
// it was not taken. The caller owns the reference to t. A Puller may be called concurrently.
type Puller func(ctx context.Context, address string, step int64, key string) (t *tensor.Tensor, dead bool, err error)

// EagerContext is the state of a TensorFlow 2 client on a task: the tensors that it made there (handles), the functions that it registered,
// and what its ops send to other tasks and receive from them. Its session runs the ops, so that rights, limits and views are those of
// sessions. Its methods may be called concurrently.
type EagerContext struct {
	task    *Task
	id      uint64
	names   names
	session *Session
	own     *eagerStep // the rendezvous of its ops
	handles handleTable
	library functionTable

	view atomic.Uint64

	cluster  atomic.Pointer[eagerCluster]
	keep     time.Duration
	replaced atomic.Bool // it is closed because the client makes it anew
}

// keepAlive returns how long the session lives after its last call, if that is what ends it; otherwise 0.
func (s *Session) keepAlive() time.Duration {
	if s.eager == nil {
		return 0
	}
	return s.eager.keep
}

// config returns the configuration of a context's session: it runs on its own task only.
func (spec *EagerSpec) config(task string) *corepb.ConfigProto {
	c := &corepb.ConfigProto{}
	if spec.Config != nil {
		c = proto.CloneOf(spec.Config)
	}
	// These describe the client's process.
	c.ClusterDef, c.SessionInterOpThreadPool, c.UsePerSessionThreads = nil, nil, false
	c.DeviceFilters = []string{task}
	c.IsolateSessionState = spec.Isolated
	return c
}

// CreateEagerContext creates a context for a client, whose connection keeps it alive unless the spec has a time for that. Its ops have the
// client's rights. It replaces a context with the same id, whose view must not be newer: INVALID_ARGUMENT.
func (t *Task) CreateEagerContext(ctx context.Context, connection uint64, rights Rights, spec EagerSpec) (*EagerContext, error) {
	if t.life.Err() != nil {
		return nil, status.Errorf(status.Unavailable, "The server of %s is shutting down", t.name)
	}
	n, err := newNames(spec.Task, t.name)
	if err != nil {
		return nil, err
	}
	if old := t.eager.context(spec.ID); old != nil {
		if old.view.Load() > spec.View || old.session.rights.Owner != rights.Owner {
			return nil, errEagerExists(spec.ID)
		}
		old.replaced.Store(true)
		old.close(status.Errorf(status.Aborted, "The eager context was replaced"))
	}
	c := &EagerContext{task: t, id: spec.ID, names: n, own: &eagerStep{id: int64(spec.ID)}, keep: spec.KeepAlive}
	c.view.Store(spec.View)
	cluster, err := c.clusterOf(&spec)
	if err != nil {
		return nil, err
	}
	c.cluster.Store(cluster)
	if _, err := t.openSession(ctx, Connection(connection), rights, &graphpb.GraphDef{}, spec.config(t.name), c); err != nil {
		return nil, err
	}
	if err := t.eager.add(c); err != nil {
		c.close(err)
		return nil, err
	}
	return c, nil
}

func errEagerExists(id uint64) error {
	return status.InvalidArgumentf("EagerService:CreateContext failed. Context id: <%d> already exists.", id)
}

// EagerContext returns the context with an id, for a call over a client's connection, and renews its lease. The error for an unknown id is
// ABORTED, in the words that TensorFlow's clients look for.
func (t *Task) EagerContext(id, connection uint64) (*EagerContext, error) {
	c := t.eager.context(id)
	if c == nil {
		return nil, errNoContext(id)
	}
	c.session.touch()
	if c.keep == 0 {
		c.session.usedOver(Connection(connection))
	}
	return c, nil
}

// OpenEagerContext returns the context with an id, for a caller that does not use it yet; nil if there is none.
func (t *Task) OpenEagerContext(id uint64) *EagerContext { return t.eager.context(id) }

// errNoContext returns the error for an unknown context, in the words by which TensorFlow's clients recognize a task that was restarted.
func errNoContext(id uint64) error {
	return status.Errorf(status.Aborted, "Unable to find a context_id matching the specified one (%d). Perhaps the worker was restarted, or the context was GC'd?", id)
}

// EagerContexts returns the task's contexts, in no order.
func (t *Task) EagerContexts() []*EagerContext { return t.eager.all() }

// ID returns the context's id, which its client chose.
func (c *EagerContext) ID() uint64 { return c.id }

// String returns the context's name for people.
func (c *EagerContext) String() string { return fmt.Sprintf("Eager context %d", c.id) }

// client names whose steps count together with the context's: those of its owner, or its own where owners are not told apart.
func (c *EagerContext) client() string { return cmp.Or(c.session.rights.Owner, c.String()) }

// Handle returns the handle of the context's session.
func (c *EagerContext) Handle() string { return c.session.handle }

// View returns the number of the context's present view of the cluster.
func (c *EagerContext) View() uint64 { return c.view.Load() }

// Rights returns what the context's client may do.
func (c *EagerContext) Rights() Rights { return c.session.rights }

// Devices returns the task's devices under the client's names: those whose own names are shown, or all if shown is nil.
func (c *EagerContext) Devices(shown func(name string) bool) []*devpb.DeviceAttributes {
	var out []*devpb.DeviceAttributes
	for _, d := range c.task.Describe() {
		if shown != nil && !shown(d.Name) {
			continue
		}
		d.Name = c.names.toClient(d.Name)
		out = append(out, d.Proto())
	}
	return out
}

// Update moves the context to the next view of its cluster. A nil spec changes nothing else; otherwise its peers replace those of the
// context, and instances of functions are made anew.
func (c *EagerContext) Update(view uint64, spec *EagerSpec) error {
	var cluster *eagerCluster
	if spec != nil {
		var err error
		if cluster, err = c.clusterOf(spec); err != nil {
			return err
		}
		cluster.view = view
	}
	if have := c.view.Load(); view != have+1 || !c.view.CompareAndSwap(have, view) {
		return status.InvalidArgumentf("EagerService:UpdateContext failed. Context id: <%d> currently at view #%d but received update request at view #%d. View id should only be continuously incremented.",
			c.id, have, view)
	}
	if cluster == nil {
		return nil
	}
	for have := c.cluster.Load(); have.view < view; have = c.cluster.Load() { // the next update may have been faster
		if c.cluster.CompareAndSwap(have, cluster) {
			break
		}
	}
	c.dropInstances("")
	return nil
}

// Close ends the context as its client asks, unless it has moved on to a newer view: running ops are cancelled, handles and functions go.
// Named variables and other resources stay.
func (c *EagerContext) Close(view uint64) {
	if view >= c.view.Load() {
		c.close(status.Errorf(status.Cancelled, "The eager context was closed"))
	}
}

// close ends the context, and waits for that for a bounded time.
func (c *EagerContext) close(reason error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	c.task.eager.remove(c, reason)
	if err := c.task.endSession(ctx, c.session.handle, reason); err != nil && status.CodeOf(err) != status.Aborted { // it had ended already
		c.task.Log.Warn("an eager context did not end in time", "context", c.id, "error", err)
	}
}

// ended drops the state of a context whose session is over, however it ended.
func (c *EagerContext) ended() {
	c.task.eager.remove(c, errNoContext(c.id))
	c.clear(c.handles.close())
	c.memory().Unreserve(c.library.close())
}
