package eager

import (
	"context"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// largeRequest is the size in bytes from which requests are counted: the number of smaller ones is bounded by the connections of their clients.
const largeRequest = 64 << 10

// requests counts the bytes of large requests from when they are decoded until they are answered. Its methods may be called concurrently.
type requests struct {
	limit int64 // of all clients; one client may have half of it

	mu  sync.Mutex
	all int64
	of  map[string]int64 // by client
}

// enter counts a request of a client. The error is RESOURCE_EXHAUSTED.
func (r *requests) enter(client, method string, bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range []struct {
		who         string
		used, limit int64
	}{{"this client", r.of[client], r.limit / 2}, {"all clients", r.all, r.limit}} {
		if of.used+bytes > of.limit {
			return status.Errorf(status.ResourceExhausted, "A request %s of %d bytes is refused for now: those of %s that are being executed take %d bytes, and the limit is %d. "+
				"Send fewer or smaller requests at once, or give the server more memory.", method, bytes, of.who, of.used, of.limit)
		}
	}
	r.of[client] += bytes
	r.all += bytes
	return nil
}

func (r *requests) leave(client string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all -= bytes
	if r.of[client] -= bytes; r.of[client] == 0 {
		delete(r.of, client)
	}
}

// request is a message that is decoded if it is within the bounds of its client.
type request struct {
	message  inContext
	method   string
	ctx      context.Context // of the call
	requests *requests
	size     int
	client   string // that counted bytes are counted for
	counted  int64
}

// UnmarshalWire decodes the message.
func (r *request) UnmarshalWire(data mem.BufferSlice, ended func() error) error {
	r.size = data.Len()
	if r.size >= largeRequest {
		peer, _ := http2.PeerOf(r.ctx)
		r.client = http2.ClientOf(peer)
		if err := r.requests.enter(r.client, r.method, int64(r.size)); err != nil {
			return wire.ToGRPC(err)
		}
		r.counted = int64(r.size)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	if err := tensor.UnmarshalUntil(b.ReadOnlyData(), r.message, ended); err != nil {
		if ended != nil && ended() != nil {
			return err
		}
		if status.CodeOf(err) != status.ResourceExhausted {
			err = status.InvalidArgumentf("The request %s is malformed: %v", r.method, err)
		}
		return wire.ToGRPC(err)
	}
	return nil
}

// release ends the counting of the request.
func (r *request) release() {
	if r.counted > 0 {
		r.requests.leave(r.client, r.counted)
		r.counted = 0
	}
}
