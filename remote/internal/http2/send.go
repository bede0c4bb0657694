package http2

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// copyBelow is the size in bytes of messages that are copied when somebody else writes: their
	// senders do not wait.
	copyBelow = 32 << 10
	// maxQueued is how many bytes of such messages may wait.
	maxQueued = 4 << 20
	// streamQuantum is how many bytes of a message go to the kernel at once.
	streamQuantum = 16 << 20
	// drainTime bounds how long a server waits for the other end to see how a stream ended.
	drainTime = time.Second
)

// Send writes one message made of pieces, in order. The pieces are the caller's again when it
// returns. Messages of several senders do not mix. It waits while the other end does not read, but
// only a minute for window. Window comes to who reads: another goroutine has to be at Next or Read.
func (s *Stream) Send(pieces ...[]byte) error {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	if size > maxMessage {
		return status.Errorf(codes.ResourceExhausted, "a message of %d bytes is too large for a stream", size)
	}
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !s.closed && (s.partial || c.busy && c.queue.bytes() > maxQueued) {
		c.written.Wait()
	}
	if err := s.sendable(); err != nil {
		return err
	}
	s.partial = true
	copied := size <= copyBelow
	last, err := s.queue(size, pieces, copied)
	s.partial = false
	c.written.Broadcast()
	if copied {
		c.flush()
	} else {
		c.awaitSent(last) // the kernel may be reading from the pieces
	}
	if err == nil && c.err != nil {
		err = unavailable(c.err)
	}
	return err
}

// queue queues a message's frames, as fast as the windows and the kernel take them, and gives the
// serial number of the last batch that has some of them. conn.mu is held.
func (s *Stream) queue(size int, pieces [][]byte, copied bool) (last uint64, err error) {
	c := s.conn
	head, left, piece := true, prefixSize+size, 0
	for left > 0 {
		n, err := s.room(left)
		if err != nil {
			return last, err
		}
		last = c.serial
		c.queue.buf = appendHeader(c.queue.buf, n, frameData, 0, s.id)
		s.window -= int64(n)
		c.window -= int64(n)
		left -= n
		if head {
			c.queue.buf = appendPrefix(c.queue.buf, size)
			n -= prefixSize
			head = false
		}
		for n > 0 {
			k := min(n, len(pieces[0])-piece)
			if b := pieces[0][piece : piece+k]; copied {
				c.queue.buf = append(c.queue.buf, b...)
			} else {
				c.queue.content(b)
			}
			n -= k
			if piece += k; piece == len(pieces[0]) {
				pieces, piece = pieces[1:], 0
			}
		}
	}
	return last, nil
}

// room waits until a frame may be queued, and gives how many of left bytes it may have. A message's
// prefix is never cut. conn.mu is held.
func (s *Stream) room(left int) (int, error) {
	c := s.conn
	for {
		if err := s.sendable(); err != nil {
			return 0, err
		}
		n := int(min(int64(left), s.window, c.window, int64(c.maxFrame)))
		if n >= min(left, prefixSize) && c.queue.bytes() < streamQuantum {
			return n, nil
		}
		if c.busy {
			c.written.Wait()
		} else if c.queue.empty() {
			// An end that gives no window is as dead as one that takes no bytes.
			limit := time.AfterFunc(stall, func() { c.shut(errStuck) })
			c.written.Wait()
			limit.Stop()
		} else {
			c.flush() // which lets go of mu: all may be different
		}
	}
}

// sendable gives the error of a stream that takes no message. conn.mu is held.
func (s *Stream) sendable() error {
	if s.conn.err != nil {
		return unavailable(s.conn.err)
	}
	if s.closed {
		return status.Error(codes.Unavailable, "the stream was closed")
	}
	return nil
}

// CloseSend tells the other end that no more messages come.
func (s *Stream) CloseSend() error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && s.partial {
		c.written.Wait()
	}
	if err := s.sendable(); err != nil {
		return err
	}
	s.closed = true
	c.queue.buf = appendHeader(c.queue.buf, 0, frameData, flagEndStream, s.id)
	c.written.Broadcast() // to who waits to send
	c.flush()
	return nil
}

// finish tells the client how the stream ended, and lets it read that before the connection ends.
func (s *Stream) finish(err error) {
	c := s.conn
	limit := time.Now().Add(drainTime)
	if c.nc.SetDeadline(limit) != nil {
		return // it is closed
	}
	c.mu.Lock()
	s.closed = true
	c.written.Broadcast() // to who waits to send
	if c.err == nil && !s.partial {
		c.encode(s.id, flagEndStream, trailer(err)...)
		c.flush()
	}
	gone := c.err != nil
	c.mu.Unlock()
	if !gone {
		c.linger()
	}
}
