package wire

import (
	"google.golang.org/grpc/mem"

	"github.com/troupe-run/troupe/graph/tensor"
)

// InPlace is the size in bytes from which a tensor's content is sent from its own memory.
const InPlace = 16 << 10

// Lease returns a buffer of a tensor's content, at least 1 KiB, and retains the tensor until the transport has written the buffer.
func Lease(t *tensor.Tensor, content []byte) mem.Buffer {
	return mem.NewBuffer(&content, lease{t.Retain()})
}

// lease is the pool of a single buffer.
type lease struct{ t *tensor.Tensor }

// Get is never called: the pool only takes buffers back.
func (l lease) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put ends the lease.
func (l lease) Put(*[]byte) { l.t.Release() }
