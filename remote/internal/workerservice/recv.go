package workerservice

import (
	"context"
	"sync"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// rememberedRequests is how many requests are remembered, to recognize one that is sent twice. It is TensorFlow's number.
const rememberedRequests = 100_000

// requestIDs are the ids of recent requests. Methods may be called concurrently.
type requestIDs struct {
	mu   sync.Mutex
	seen *recent.Map[int64, struct{}]
}

func (r *requestIDs) init(most int) { r.seen = recent.NewMap[int64, struct{}](most) }

// add remembers an id, and reports whether it is new. 0 is the id of requests that are not checked.
func (r *requestIDs) add(id int64) bool {
	if id == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.seen.Get(id); ok {
		return false
	}
	r.seen.Add(id, struct{}{})
	return true
}

// recvTensor waits for a tensor without a bound of its own: the op that sends it may begin at any time later.
func (s *service) recvTensor(ctx context.Context, caller *gateway.Caller, q *corepb.RecvTensorRequest) (*recvTensorResponse, error) {
	peer, err := s.peer(ctx, caller)
	if err != nil {
		return nil, err
	}
	if !s.received.add(q.GetRequestId()) { // the tensor may have left with the answer to the first one
		return nil, status.Errorf(status.Aborted, "The same RecvTensor (GrpcWorker) request was received twice. step_id: %d rendezvous_key: %q request_id: %d",
			q.GetStepId(), q.GetRendezvousKey(), q.GetRequestId())
	}
	t, dead, err := s.Task.EagerRecv(ctx, peer, q.GetStepId(), q.GetRendezvousKey())
	if err != nil {
		return nil, err
	}
	return &recvTensorResponse{ctx: ctx, tensor: t, dead: dead, start: time.Now()}, nil
}

// peer returns the caller of RecvTensor. What is sent in a context is for its owner and for the tasks of the cluster.
func (s *service) peer(ctx context.Context, caller *gateway.Caller) (actors.EagerPeer, error) {
	p, _ := http2.PeerOf(ctx)
	peer := actors.EagerPeer{Who: http2.ClientOf(p)}
	if s.Guard == nil {
		return peer, nil
	}
	if who := caller.Rights().Who(); who.Name != (access.Name{}) {
		peer.Who = who.String()
	}
	peer.May = func(c *actors.EagerContext) error { return caller.MayUseContext(c.Rights().Policy, c.Handle()) }
	if caller.IsTask() {
		return peer, nil
	}
	return peer, caller.May(access.OpenSessions)
}

// recvTensorResponse is tensorflow.RecvTensorResponse. It owns the tensor until it has been written.
type recvTensorResponse struct {
	ctx    context.Context // the call's
	tensor *tensor.Tensor  // nil if dead
	dead   bool
	start  time.Time
}

// Field numbers of tensorflow.RecvTensorResponse.
const (
	fieldTensor     = 1
	fieldDead       = 2
	fieldStart      = 3
	fieldRequireAck = 5
)

// noTensor is the encoding of the tensor of a dead value, which TensorFlow sends as an empty one of floats.
var noTensor = []byte{1 << 3, 1, 2<<3 | 2, 2, 2<<3 | 2, 0}

// MarshalWire encodes the message. The small fields come first, and a tensor's type and shape before its content: TensorFlow's client then
// reads the content directly to its place.
func (m *recvTensorResponse) MarshalWire() (mem.BufferSlice, error) {
	head, content := noTensor, []byte(nil)
	if m.tensor != nil {
		defer m.tensor.Release()
		var err error
		if head, content, err = m.tensor.AppendWireUntil(nil, m.ended); err != nil {
			return nil, err
		}
	}
	var b []byte
	if m.dead {
		b = protowire.AppendTag(b, fieldDead, protowire.VarintType)
		b = protowire.AppendVarint(b, 1)
	}
	b = protowire.AppendTag(b, fieldStart, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(m.start.UnixMicro()))
	b = protowire.AppendTag(b, fieldTensor, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(head)+len(content)))
	b = append(b, head...)
	if len(content) < wire.InPlace {
		return mem.BufferSlice{mem.SliceBuffer(append(b, content...))}, nil
	}
	return mem.BufferSlice{mem.SliceBuffer(b), wire.Lease(m.tensor, content)}, nil
}

// ended returns an error once the client waits no longer: encoding many variants takes seconds.
func (m *recvTensorResponse) ended() error {
	if err := m.ctx.Err(); err != nil {
		return status.From(err)
	}
	return nil
}
