package http2

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serveServerStream runs the handler of a call that is answered with many messages. Another goroutine continues reading.
func (c *serverConn) serveServerStream(s *stream) {
	s.call.detach()
	c.mu.Lock()
	s.many = true
	c.mu.Unlock()
	stop := s.call.AfterFunc(func() { // wakes a waiting sender
		c.mu.Lock()
		defer c.mu.Unlock()
		c.written.Broadcast()
	})
	err := s.method.ServerStream(&s.call, s.call.read, func(message any) error { return c.sendOne(s, message) })
	s.releaseRequest()
	c.finishStream(s, err)
	stop()
	s.call.end(context.Canceled)
}

// sendOne queues a message after the previous one has left.
func (c *serverConn) sendOne(s *stream, message any) error {
	body, err := c.encodeAnswer(message)
	if err != nil {
		return err
	}
	size := body.Len()
	c.mu.Lock()
	defer c.mu.Unlock()
	if size > maxMessage {
		err = status.Errorf(codes.ResourceExhausted, "a message of %d bytes is too large: the limit is %d", size, maxMessage)
	} else if err = c.awaitLeft(s); err == nil && !c.takesAnswer(int64(size)) {
		err = status.Errorf(codes.ResourceExhausted, "a message of %d bytes is dropped: answers of %d bytes wait for clients to read them, and the limit is %d", size, c.server.unsent.Load(), c.server.maxUnsentAll)
	}
	if err != nil {
		body.Free()
		return err
	}
	c.beginMany(s)
	appendPrefix(s.head[:0], size)
	s.body, s.off, s.headed, s.left = body, 0, 0, prefixSize+size
	c.unread(int64(s.left))
	c.push(s)
	c.flush()
	return nil
}

// beginMany queues the headers of an answer, once. mu is held.
func (c *serverConn) beginMany(s *stream) {
	if !s.opened {
		s.opened = true
		c.encode(s.id, 0, fieldOK, fieldGRPC, fieldAccept)
	}
}

// awaitLeft waits until the previous message was queued completely, or the call is over. mu is held.
func (c *serverConn) awaitLeft(s *stream) error {
	for {
		switch err := s.call.Err(); {
		case c.err != nil || s.gone:
			return errGone
		case err != nil:
			return status.FromContextError(err).Err()
		case s.left == 0:
			return nil
		}
		c.written.Wait()
	}
}

// finishStream sends the outcome of a call of many messages, after the last of them.
func (c *serverConn) finishStream(s *stream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if late := c.awaitLeft(s); late != nil && err == nil {
		err = late
	}
	c.ran()
	if c.err != nil || c.streams[s.id] != s {
		c.written.Broadcast()
		return
	}
	if s.left > 0 { // the call is over: drop what the client has not read
		s.drop()
	}
	var fields []hpackField
	if !s.opened {
		fields = append(fields, fieldOK, fieldGRPC)
	}
	c.encode(s.id, flagEndStream, trailer(err, fields...)...)
	if s.inbox != nil && !s.inbox.closed {
		c.queue.buf = appendReset(c.queue.buf, s.id, codeNone) // no need to send more
	}
	c.forgetCall(s)
	s.gone = true
	c.written.Broadcast()
	c.flush()
}
