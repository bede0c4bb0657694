package http2

import (
	"context"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// messageOverhead is what a received message is counted for, in bytes, in addition to its contents.
const messageOverhead = 512

var errNoReader = status.Error(codes.Canceled, "the call ended before the message was read")

// inbox is the request side of a call with messages in both directions. Each message is received like the request of a unary call, into a
// stream of its own. When memory is short, the messages that a handler has not read are evicted together, and the call fails.
//
// The window of the call opens as the handler reads. While the handler waits for a message, it also opens as the message arrives, so that
// a message may be larger than the window. The window of the connection is independent of handlers.
type inbox struct {
	// Guarded by Server.receiving.
	queue []*stream // complete messages, the oldest first
	part  *stream   // the message that is being received; nil if there is none

	// Guarded by conn.mu, like credit of the call's stream. over is also read by Server.receiving, with conn.mu held.
	arrived  sync.Cond // a message is complete, or there will be no more
	ready    int       // complete messages
	waiting  bool      // the handler waits for a message
	closed   bool      // the client sends no more
	over     bool      // the handler reads no more
	err      error     // why there will be no more messages, other than the client's end
	debt     int       // bytes of DATA for which the client has not been given new credit
	buffered int       // bytes of the messages that the handler has not read
}

// startBidi starts the handler of a call with messages in both directions, on its own goroutine.
func (c *serverConn) startBidi(s *stream) {
	s.begun, s.call.detached = true, true // no call hands the reader over
	c.mu.Lock()
	s.inbox, s.many = &inbox{}, true
	s.inbox.arrived.L = &c.mu
	refused := c.runs()
	full := c.unsent > c.server.maxUnsent/16
	c.mu.Unlock()
	c.server.work.Go(func() { c.serveBidi(s, full, refused) })
}

func (c *serverConn) serveBidi(s *stream, full bool, refused error) {
	stop := s.call.AfterFunc(func() { // wakes the handler
		c.mu.Lock()
		defer c.mu.Unlock()
		s.inbox.arrived.Broadcast()
		c.written.Broadcast()
	})
	err := errGone
	if refused != nil {
		err = refused
	} else if !full || c.awaitRoom(s) {
		err = s.method.Bidi(&s.call, func(message any) error { return c.receiveOne(s, message) }, func(message any) error { return c.sendOne(s, message) })
	}
	c.mu.Lock()
	c.endMessages(s)
	c.mu.Unlock()
	c.finishStream(s, err)
	stop()
	s.call.end(context.Canceled)
}

// endMessages frees the messages that the handler has not read. mu is held.
func (c *serverConn) endMessages(s *stream) {
	if s.inbox != nil {
		s.inbox.over = true
		s.inbox.arrived.Broadcast()
		c.server.receiving.dropMessages(s)
	}
}

// messages returns the messages that have not been read.
func (b *inbox) messages() []*stream {
	if b.part == nil {
		return b.queue
	}
	return append(slices.Clip(b.queue), b.part)
}

// receiveOne waits for the next message of a call and decodes it. It returns io.EOF after the client's last message.
func (c *serverConn) receiveOne(s *stream, message any) error {
	m, err := c.nextMessage(s)
	if err != nil {
		return err
	}
	defer m.releaseRequest()
	contents := m.message
	m.message = nil
	return c.decode(m, contents, message)
}

func (c *serverConn) nextMessage(s *stream) (*stream, error) {
	b := s.inbox
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch err := s.call.Err(); {
		case err != nil:
			return nil, status.FromContextError(err).Err()
		case c.err != nil || s.gone || b.over:
			return nil, status.Error(codes.Canceled, errGone.Error())
		}
		switch m, err := c.server.receiving.takeMessage(s); {
		case err != nil:
			return nil, err
		case m != nil:
			b.buffered -= prefixSize + m.size
			b.ready--
			c.openWindow(s)
			return m, nil
		case b.err != nil:
			return nil, b.err
		case b.closed:
			return nil, io.EOF
		}
		b.waiting = true
		c.openWindow(s)
		b.arrived.Wait()
		b.waiting = false
	}
}

// openWindow gives the client credit for what the handler has read, or waits for. mu is held.
func (c *serverConn) openWindow(s *stream) {
	b := s.inbox
	n := b.debt
	if !b.waiting || b.ready > 0 {
		n -= b.buffered
	}
	if n < streamWindow/2 || b.closed || b.err != nil || b.over {
		return
	}
	c.queue.buf = appendWindow(c.queue.buf, s.id, n)
	b.debt -= n
	s.credit += n
	c.flush()
}

// spend counts a DATA frame against the window of a call. contents of its bytes are not padding. It returns false if the window is too small.
func (c *serverConn) spend(s *stream, bytes, contents int) bool {
	b := s.inbox
	if b == nil {
		s.credit -= bytes
		return s.credit >= 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.credit -= bytes; s.credit < 0 {
		return false
	}
	b.debt += bytes
	b.buffered += contents
	c.openWindow(s)
	return true
}

// receiveMessages reads n bytes of a call's messages. Only the reader calls it.
func (c *serverConn) receiveMessages(s *stream, n int) error {
	for n > 0 && !s.declined {
		m := c.messagePart(s)
		if m == nil {
			break
		}
		k := min(n, prefixSize-m.have)
		if m.have == prefixSize {
			k = min(n, m.size-m.got)
		}
		n -= k
		whole, err := m.receive(k, false)
		if err != nil { // the connection is lost, and the message perhaps evicted: then only the reader knows of it
			m.releaseRequest()
			return err
		}
		if whole {
			c.earnOverhead(overheadPerCall) // a message is as useful as a call
			c.deliver(s, m)
		}
	}
	return c.in.skip(n)
}

// messagePart returns the message that the client is sending, or nil if it is not awaited. Only the reader calls it.
func (c *serverConn) messagePart(s *stream) *stream {
	if m := s.incoming; m != nil {
		return m
	}
	m := &stream{conn: c, id: s.id, method: s.method, encoding: s.encoding, of: s}
	err := m.reserve(messageOverhead, true)
	if err == nil {
		c.mu.Lock()
		err = c.server.receiving.queueMessage(m, false)
		c.mu.Unlock()
	}
	if err != nil {
		c.decline(m, err)
		return nil
	}
	s.incoming = m
	return m
}

// deliver queues a complete message for the handler.
func (c *serverConn) deliver(s, m *stream) {
	s.incoming = nil
	c.mu.Lock()
	err := c.server.receiving.queueMessage(m, true)
	if err == nil {
		s.inbox.ready++
		s.inbox.arrived.Signal()
	}
	c.mu.Unlock()
	if err != nil {
		c.decline(m, err)
	}
}

// closeMessages records that the client sends no more. Only the reader calls it.
func (c *serverConn) closeMessages(s *stream) {
	if m := s.incoming; m != nil {
		c.decline(m, status.Error(codes.Internal, "the call's last message is not complete"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.inbox.closed = true
	s.inbox.arrived.Signal()
}

// failMessages makes the handler's next receive fail, after the messages that have arrived.
func (c *serverConn) failMessages(s *stream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.failMessages(err)
}

func (s *stream) failMessages(err error) {
	b := s.inbox
	if b.err == nil {
		b.err = err
	}
	b.arrived.Signal()
}
