package http2

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// copyBelow is the size in bytes up to which messages are copied, so that their senders need
	// not wait while another goroutine is writing.
	copyBelow = 32 << 10
	// maxQueued bounds the queued bytes, beyond which senders wait.
	maxQueued = 4 << 20
	// streamQuantum bounds the bytes of a batch.
	streamQuantum = 16 << 20
	// drainTime bounds how long a server waits for the other end to see how a stream ended.
	drainTime = time.Second
)

// Send writes one message made of pieces, in order. When it returns, the pieces belong to the caller
// again. Messages of concurrent senders do not mix. Send waits while the other end does not read, but
// at most a minute for window. Only a reader learns of window updates: another goroutine must be in Next or Read.
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

// queue queues a message's frames, as fast as the windows and the kernel accept them. It returns the
// serial number of the last batch that contains some of them. conn.mu is held.
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

// room waits until a frame may be queued, and returns how many of left bytes it may contain. A message's
// prefix is never split. conn.mu is held.
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
			// A peer that sends no window updates is as dead as one that accepts no bytes.
			limit := time.AfterFunc(stall, func() { c.shut(errStuck) })
			c.written.Wait()
			limit.Stop()
		} else {
			c.flush() // releases mu: everything may have changed
		}
	}
}

// sendable returns an error if the stream accepts no more messages. conn.mu is held.
func (s *Stream) sendable() error {
	if s.conn.err != nil {
		return unavailable(s.conn.err)
	}
	if s.closed {
		return status.Error(codes.Unavailable, "the stream was closed")
	}
	return nil
}

// CloseSend tells the other end that no more messages will follow.
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
	c.written.Broadcast() // wakes waiting senders
	c.flush()
	return nil
}

// finish sends the client the stream's outcome, and gives it time to read it before the connection ends.
func (s *Stream) finish(err error) {
	c := s.conn
	limit := time.Now().Add(drainTime)
	if c.nc.SetDeadline(limit) != nil {
		return // it is closed
	}
	c.mu.Lock()
	s.closed = true
	c.written.Broadcast() // wakes waiting senders
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
