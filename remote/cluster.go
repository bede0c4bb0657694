package remote

import (
	"context"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/remote/compress"
	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"google.golang.org/protobuf/encoding/protowire"
)

// cluster shows the actors the declared cluster through this node's links.
type cluster struct {
	node  *Node
	tasks []string

	mu    sync.Mutex
	known map[string][]actors.DeviceInfo
}

var _ actors.Cluster = (*cluster)(nil)

func newCluster(n *Node) *cluster {
	c := &cluster{node: n}
	for _, t := range n.spec.Tasks() {
		c.tasks = append(c.tasks, t.Name())
	}
	return c
}

// Self is the own task's name.
func (c *cluster) Self() string { return c.node.self.Name() }

// Tasks are the declared tasks' names, in order.
func (c *cluster) Tasks() []string { return c.tasks }

// Known are the devices of a task when it was reached the last time, or else what gossip tells.
func (c *cluster) Known(task string) []actors.DeviceInfo {
	c.mu.Lock()
	known := c.known[task]
	c.mu.Unlock()
	if known == nil && c.node.gossip != nil {
		if m, ok := c.node.gossip.Member(task); ok && len(m.Devices) > 0 {
			return deviceInfos(m.Devices)
		}
	}
	return known
}

// Peer reaches a task.
func (c *cluster) Peer(ctx context.Context, task string) (actors.Peer, error) {
	p, err := c.node.links.Ensure(ctx, task)
	if err != nil {
		return nil, err
	}
	found := peer{p}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string][]actors.DeviceInfo{}
	}
	c.known[task] = found.Devices()
	return found, nil
}

// Reached is a task's peer if the link is up.
func (c *cluster) Reached(task string) actors.Peer {
	if p := c.node.links.Reached(task); p != nil {
		return peer{p}
	}
	return nil
}

// Watch tells of lost tasks as long as the links live.
func (c *cluster) Watch(down func(task string, err error)) {
	c.node.links.Watch(func(task string, err error) {
		if !cast.Outside(task) { // those are no tasks
			down(task, err)
		}
	})
}

// peer is a link's peer as the actors see it.
type peer struct{ *link.Peer }

// Devices are the peer's devices.
func (p peer) Devices() []actors.DeviceInfo { return deviceInfos(p.Peer.Devices()) }

func deviceInfos(list []*wire.Device) []actors.DeviceInfo {
	out := make([]actors.DeviceInfo, len(list))
	for i, d := range list {
		out[i] = actors.DeviceInfo{Name: d.Name, Type: d.Type, MemoryLimit: d.MemoryLimit, Incarnation: d.Incarnation,
			Description: d.Description}
	}
	return out
}

// Push sends a large tensor from its own memory; a task of this process takes over the tensor itself.
// Who asks for compression wants it sent.
func (p peer) Push(q actors.Push) error {
	if compress.Algorithm(q.Compression) == compress.None {
		if taken, err := p.Hand(q.Step, q.Key, q.Tensor); taken {
			return err
		}
	}
	return p.PushCompressed(q.Step, pushHeader(q), q.Tensor.Data(), compress.Algorithm(q.Compression), q.Tensor.DType().Size(), q.Tensor.Release)
}

// pushHeader tells the receiver which edge a tensor is the value of, its type and its shape, and which device wants it.
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

// readPushHeader reads it. The device is what is left at the end: nothing, of a sender that does not tell it.
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

// sink takes the tensors that peers push, straight into the memory that kernels or cards read them from.
type sink struct {
	pool    *tensor.Pool
	landing map[string]devices.Landing // by the devices' names
	deliver func(step uint64, key kernels.Key, t *tensor.Tensor)
	refuse  func(step uint64, err error)
}

var _ link.Sink = (*sink)(nil)

// newSink makes one for a task's devices, the first of which is its processor.
func newSink(all []devices.Device) *sink {
	s := &sink{pool: all[0].Pool(), landing: map[string]devices.Landing{}}
	for _, d := range all {
		if l, ok := d.(devices.Landing); ok {
			s.landing[d.Name()] = l
		}
	}
	return s
}

// Begin makes room for a tensor.
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

// room is memory for a tensor on its way to a device.
func (s *sink) room(device []byte, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	if l := s.landing[string(device)]; l != nil {
		return l.Land(dtype, shape)
	}
	return tensor.New(s.pool, dtype, shape)
}

// Take gives a tensor of another task of this process to its step. It stays in the account of the
// device's memory that it came from.
func (s *sink) Take(step uint64, key kernels.Key, t *tensor.Tensor) { s.deliver(step, key, t) }
