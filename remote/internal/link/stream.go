package link

import (
	"context"
	"io"
)

// Stream is one stream of messages on a connection of its own.
type Stream interface {
	// Next waits for the next message and gives its length in bytes; io.EOF after the other end's
	// last one. What was not read of the message before is skipped. One goroutine reads.
	Next() (int, error)
	// Read reads bytes of the current message, io.EOF at its end; large reads go from the socket
	// straight into p.
	Read(p []byte) (int, error)
	// Send writes one message made of pieces, in order, and returns when the kernel has taken it:
	// the pieces are the caller's again. It blocks while the other end does not read. It is safe
	// for concurrent use.
	Send(pieces ...[]byte) error
	// Takes tells whether a message of n bytes would be taken at once. It is a guess on the safe
	// side, for one goroutine that sends.
	Takes(n int) bool
	// Close ends the connection: Next and Send fail at once, blocked ones too.
	Close() error
}

// Opener makes a stream to the method of the port at an address. ctx bounds the attempt alone.
type Opener func(ctx context.Context, address, method string) (Stream, error)

// The streams' methods.
const (
	// Method is that of protoactor's remoting: links, programs' actors, and peers that know no links.
	Method = "/remote.Remoting/Receive"
	// BulkMethod is that of large tensors.
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

// growing is how much memory a claimed length is believed at once.
const growing = 1 << 20 // bytes

// readGrowing reads n bytes of the current message into buf's memory, which it enlarges as they
// arrive: who claims more than they send does not make this process take the memory.
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
