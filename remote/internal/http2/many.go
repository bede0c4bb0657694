package http2

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// serveMany runs the handler of a call that is answered with many messages. Another goroutine goes on reading.
func (c *serverConn) serveMany(s *stream) {
	s.call.detach()
	c.mu.Lock()
	s.many = true
	c.mu.Unlock()
	stop := s.call.AfterFunc(func() { // who waits to send waits no longer
		c.mu.Lock()
		defer c.mu.Unlock()
		c.written.Broadcast()
	})
	err := s.method.ServerStream(&s.call, s.call.read, func(message any) error { return c.sendOne(s, message) })
	s.settle()
	c.finishMany(s, err)
	stop()
	s.call.end(context.Canceled)
}

// sendOne queues a message when the one before has left.
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

// awaitLeft waits until the message before has left for the kernel, or the call is over. mu is held.
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

// finishMany tells how a call of many messages ended, behind the last of them.
func (c *serverConn) finishMany(s *stream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if late := c.awaitLeft(s); late != nil && err == nil {
		err = late
	}
	c.running--
	if c.err != nil || c.streams[s.id] != s {
		c.written.Broadcast()
		return
	}
	if s.left > 0 { // its time is over: what the client has not read is given up
		s.drop()
	}
	var fields []hpackField
	if !s.opened {
		fields = append(fields, fieldOK, fieldGRPC)
	}
	c.encode(s.id, flagEndStream, trailer(err, fields...)...)
	delete(c.streams, s.id)
	c.written.Broadcast()
	c.flush()
}
