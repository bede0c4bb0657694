package remote

import (
	"context"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/remote/compress"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/member"
	"google.golang.org/protobuf/encoding/protowire"
)

// cluster presents the declared cluster to the actors through a member's links.
type cluster struct {
	member *member.Member
	tasks  []string
}

var _ actors.Cluster = (*cluster)(nil)

func newCluster(m *member.Member) *cluster {
	c := &cluster{member: m}
	for _, t := range m.Spec().Tasks() {
		c.tasks = append(c.tasks, t.Name())
	}
	return c
}

// Self returns this task's name.
func (c *cluster) Self() string { return c.member.Self().Name() }

// Tasks returns the declared tasks' names, in order.
func (c *cluster) Tasks() []string { return c.tasks }

// Known returns a task's devices as of the last time it was reached, or else as gossip describes them.
func (c *cluster) Known(task string) []device.Attributes { return c.member.Known(task) }

// Find is like Known, but first asks a task of which nothing is known.
func (c *cluster) Find(ctx context.Context, task string) []device.Attributes {
	if known := c.Known(task); known != nil {
		return known
	}
	if c.member.Find(ctx, task, false) != nil {
		return nil
	}
	if _, err := c.Peer(ctx, task); err != nil {
		c.member.Log().Debug("a task was found but could not be reached", "task", task, "error", err)
	}
	return c.Known(task)
}

// Peer reaches a task.
func (c *cluster) Peer(ctx context.Context, task string) (actors.Peer, error) {
	p, err := c.member.Reach(ctx, task)
	if err != nil {
		return nil, err
	}
	return peer{p}, nil
}

// Unseen reports whether the task is waited for, since it has never been seen and the cluster still comes up.
func (c *cluster) Unseen(task string) bool { return c.member.Links().Unseen(task) }

// Reached returns a task's peer, or nil if the link is not up.
func (c *cluster) Reached(task string) actors.Peer {
	if p := c.member.Links().Reached(task); p != nil {
		return peer{p}
	}
	return nil
}

// Down reports whether a task that was once up is gone, as far as the member knows.
func (c *cluster) Down(task string) bool {
	s, ok := c.member.State(task)
	return ok && s.State == view.StateDown
}

// State returns what gossip and links know of a task.
func (c *cluster) State(task string) actors.TaskState {
	s, ok := c.member.State(task)
	if !ok {
		return actors.TaskState{State: view.StateNeverSeen}
	}
	return actors.TaskState{State: s.State, Since: s.Since, Reason: s.Reason}
}

// Watch reports lost tasks for as long as the links live.
func (c *cluster) Watch(down func(task string, err error)) {
	c.member.Links().Watch(func(task string, err error) {
		if !cast.Outside(task) { // outside processes are not tasks
			down(task, err)
		}
	})
}

// peer adapts a link's peer to the actors' interface.
type peer struct{ *link.Peer }

// Push sends a large tensor from its own memory; a task of the same process takes over the tensor itself. With compression, the tensor is
// always sent.
func (p peer) Push(q actors.Push) error {
	if compress.Algorithm(q.Compression) == compress.None {
		if taken, err := p.Hand(q.Step, q.Key, q.Tensor); taken {
			return err
		}
	}
	return p.PushCompressed(q.Step, pushHeader(q), q.Tensor.Data(), compress.Algorithm(q.Compression), q.Tensor.DType().Size(), q.Tensor.Release)
}

// pushHeader tells the receiver which edge the tensor is a value of, its type and shape, and which device needs it.
func pushHeader(q actors.Push) []byte {
	t := q.Tensor
	b := make([]byte, 0, len(q.Key.Edge)+len(q.Device)+48)
	b = protowire.AppendString(b, q.Key.Edge)
	b = protowire.AppendFixed64(b, q.Key.Tag.Frame)
	b = protowire.AppendVarint(b, uint64(q.Key.Tag.Iter))
	b = protowire.AppendVarint(b, uint64(t.DType()))
	b = protowire.AppendVarint(b, uint64(t.Rank()))
	for _, d := range t.Shape() {
		b = protowire.AppendVarint(b, uint64(d))
	}
	return protowire.AppendString(b, q.Device)
}

var errHeader = status.New(status.DataLoss, "The header of a pushed tensor is malformed")

// readPushHeader decodes what pushHeader encodes. The device is what remains at the end; it is empty if the sender does not send it.
func readPushHeader(b []byte) (key kernels.Key, dtype tensor.DType, shape tensor.Shape, device []byte, err error) {
	next := func() uint64 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			err, b = errHeader, nil
			return 0
		}
		b = b[n:]
		return v
	}
	edge, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return key, 0, nil, nil, errHeader
	}
	key.Edge, b = string(edge), b[n:]
	frame, n := protowire.ConsumeFixed64(b)
	if n < 0 {
		return key, 0, nil, nil, errHeader
	}
	key.Tag.Frame, b = frame, b[n:]
	key.Tag.Iter = int64(next())
	dtype = tensor.DType(next())
	rank := next()
	if rank > tensor.MaxRank {
		return key, 0, nil, nil, errHeader
	}
	for range rank {
		shape = append(shape, int64(next()))
	}
	if err == nil && len(b) > 0 {
		if device, n = protowire.ConsumeBytes(b); n < 0 {
			err = errHeader
		}
	}
	return key, dtype, shape, device, err
}

// sink receives the tensors that peers push, directly into the memory from which kernels or cards read them.
type sink struct {
	pool    *tensor.Pool
	landing map[string]devices.Landing // by the devices' names
	deliver func(step uint64, key kernels.Key, t *tensor.Tensor)
	refuse  func(step uint64, err error)
}

var _ link.Sink = (*sink)(nil)

// newSink returns a sink for a task's devices, the first of which is its CPU.
func newSink(all []devices.Device) *sink {
	s := &sink{pool: all[0].Pool(), landing: map[string]devices.Landing{}}
	for _, d := range all {
		if l, ok := d.(devices.Landing); ok {
			s.landing[d.Name()] = l
		}
	}
	return s
}

// Begin allocates memory for a tensor.
func (s *sink) Begin(_ string, _ uint64, step uint64, header []byte, size int) ([]byte, func(error), error) {
	key, dtype, shape, device, err := readPushHeader(header)
	if err != nil {
		return nil, nil, err
	}
	n, err := shape.NumElements()
	if err != nil {
		return nil, nil, err
	}
	if each := int64(dtype.Size()); each == 0 || n > int64(size) || n*each != int64(size) {
		return nil, nil, errHeader
	}
	t, err := s.room(device, dtype, shape)
	if err != nil {
		s.refuse(step, err)
		return nil, nil, err
	}
	return t.Data(), func(err error) {
		if err != nil {
			t.Release()
			return
		}
		s.deliver(step, key, t)
	}, nil
}

// room allocates memory for a tensor bound for a device.
func (s *sink) room(device []byte, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	if l := s.landing[string(device)]; l != nil {
		return l.Land(dtype, shape)
	}
	return tensor.New(s.pool, dtype, shape)
}

// Take delivers a tensor from another task of this process to its step. The tensor stays charged to the device memory that it came from.
func (s *sink) Take(step uint64, key kernels.Key, t *tensor.Tensor) { s.deliver(step, key, t) }
