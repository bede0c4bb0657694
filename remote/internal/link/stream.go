package link

import (
	"context"
	"io"
)

// Stream is one stream of messages on a connection of its own.
type Stream interface {
	// Next waits for the next message and returns its length in bytes, or io.EOF after the other end's
	// last one. It skips what was not read of the previous message. Only one goroutine may read.
	Next() (int, error)
	// Read reads bytes of the current message, and returns io.EOF at its end. Large reads go directly
	// from the socket into p.
	Read(p []byte) (int, error)
	// Send writes one message made of pieces, in order, and returns when the kernel has accepted it.
	// The pieces then belong to the caller again. Send blocks while the other end does not read. It is safe
	// for concurrent use.
	Send(pieces ...[]byte) error
	// Takes reports whether Send would accept a message of n bytes without blocking. It is a conservative
	// estimate, valid if only one goroutine sends.
	Takes(n int) bool
	// Close ends the connection: Next and Send fail at once, including blocked calls.
	Close() error
}

// Opener opens a stream to the method of the port at an address. ctx bounds only the attempt.
type Opener func(ctx context.Context, address, method string) (Stream, error)

// The streams' methods.
const (
	// Method is protoactor's remoting. Links, programs' actors, and processes outside the cluster use it.
	Method = "/remote.Remoting/Receive"
	// BulkMethod carries large tensors.
	BulkMethod = "/" + serviceName + "/Bulk"
)

// readAll fills p from the current message of s. A message that ends early is io.ErrUnexpectedEOF.
func readAll(s Stream, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := io.ReadFull(s, p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// growing is the memory that readGrowing allocates at first, whatever length is claimed.
const growing = 1 << 20 // bytes

// readGrowing reads n bytes of the current message into buf's memory, which it enlarges as they
// arrive. A peer that claims more than it sends cannot make this process allocate that memory.
func readGrowing(s Stream, buf []byte, n int) ([]byte, error) {
	buf = buf[:0]
	for len(buf) < n {
		have := len(buf)
		next := min(n, max(growing, 2*have))
		if next > cap(buf) {
			larger := make([]byte, have, next)
			copy(larger, buf)
			buf = larger
		}
		buf = buf[:next]
		if err := readAll(s, buf[have:]); err != nil {
			return nil, err
		}
	}
	return buf, nil
}
