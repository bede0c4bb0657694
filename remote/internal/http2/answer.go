package http2

import (
	"net/http"
	"strconv"

	"github.com/troupe-run/troupe/internal/contain"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// quantum bounds the bytes of a batch, so that a small answer does not wait behind a large one.
const quantum = 512 << 10

// encodeAnswer encodes an answer's message. A panic fails the call, not the process.
func (c *serverConn) encodeAnswer(reply any) (body mem.BufferSlice, err error) {
	defer contain.Recover(c.server.config.Logger, "Writing the answer", func(e error) { err = status.Error(codes.Internal, e.Error()) })
	if body, err = c.server.config.Codec.Marshal(reply); err == nil {
		return body, nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Errorf(codes.Internal, "the answer cannot be written: %v", err)
	}
	return nil, err
}

// answer sends a call's reply or error.
func (c *serverConn) answer(s *stream, reply any, err error) {
	var body mem.BufferSlice
	if err == nil {
		body, err = c.encodeAnswer(reply)
	}
	size := body.Len()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case size > maxMessage:
		err = status.Errorf(codes.ResourceExhausted, "an answer of %d bytes is too large: the limit is %d", size, maxMessage)
	case err == nil && c.unsent > 0 && c.unsent+int64(size) > c.server.maxUnsent:
		err = status.Errorf(codes.ResourceExhausted, "an answer of %d bytes is dropped: answers of %d bytes wait for the client to read them, and the limit is %d", size, c.unsent, c.server.maxUnsent)
	case err == nil && !c.takesAnswer(int64(size)):
		err = status.Errorf(codes.ResourceExhausted, "an answer of %d bytes is dropped: answers of %d bytes wait for clients to read them, and the limit is %d", size, c.server.unsent.Load(), c.server.maxUnsentAll)
	}
	if s.begun {
		c.ran()
	}
	known := c.err == nil && c.streams[s.id] == s
	if err != nil || !known {
		body.Free()
	}
	switch {
	case !known:
		c.written.Broadcast()
		return
	case err != nil:
		c.encode(s.id, flagEndStream, trailer(err, fieldOK, fieldGRPC)...)
		if s.declined && !s.ended {
			c.queue.buf = appendReset(c.queue.buf, s.id, codeNone) // no need to send the rest
		}
		c.forgetCall(s)
		if s.declined {
			c.reply()
			return
		}
	default:
		c.encode(s.id, 0, fieldOK, fieldGRPC, fieldAccept)
		appendPrefix(s.head[:0], size)
		s.body, s.left = body, prefixSize+size
		c.unread(int64(s.left))
		c.push(s)
	}
	c.flush()
}

// decline answers a call with an error before its request is complete. If s is a message, the call receives no more. Only the reader calls it.
func (c *serverConn) decline(s *stream, err error) {
	s.declined = true
	s.releaseRequest()
	if o := s.owner(); o.inbox != nil {
		o.declined, o.incoming = true, nil
		c.failMessages(o, err)
		return
	}
	c.answer(s, nil, err)
}

// refuse answers a request that is not gRPC's, after it has ended.
func (c *serverConn) refuse(s *stream) {
	s.declined = true
	about := c.server.config.About + "\n"
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.streams[s.id] != s {
		return
	}
	fields := []hpack.HeaderField{{Name: ":status", Value: strconv.Itoa(int(s.refusal))}, {Name: "content-type", Value: textType}, {Name: "content-length", Value: strconv.Itoa(len(about))}}
	if s.refusal == http.StatusMethodNotAllowed {
		fields = append(fields, hpack.HeaderField{Name: "allow", Value: "POST"})
	}
	if s.bodyless {
		c.encode(s.id, flagEndStream, fields...)
		c.forgetCall(s)
	} else {
		c.encode(s.id, 0, fields...)
		s.plain, s.headed = true, prefixSize // there is no prefix to send
		s.body, s.left = mem.BufferSlice{mem.SliceBuffer(about)}, len(about)
		c.unread(int64(s.left))
		c.push(s)
	}
	c.reply()
}

// push appends a stream to those that can send. mu is held.
func (c *serverConn) push(s *stream) {
	s.queued, s.next = true, nil
	if c.first == nil {
		c.first = s
	} else {
		c.tail.next = s
	}
	c.tail = s
}

// pop removes the first of the streams that can send. mu is held.
func (c *serverConn) pop() {
	s := c.first
	c.first, s.next, s.queued = s.next, nil, false
}

// fill queues as much of the answers as the windows and quantum allow, one frame of each answer
// in turn. mu is held.
func (c *serverConn) fill() {
	for c.first != nil && c.queue.bytes() < quantum {
		s := c.first
		if s.gone || s.left > 0 && s.window <= 0 {
			c.pop() // widen pushes it again
			continue
		}
		if s.left > 0 {
			n := int(min(int64(s.left), s.window, c.window, int64(c.maxFrame)))
			if n <= 0 {
				return
			}
			flags := uint8(0)
			if s.plain && n == s.left {
				flags = flagEndStream
			}
			c.queue.buf = appendHeader(c.queue.buf, n, frameData, flags, s.id)
			s.window -= int64(n)
			c.window -= int64(n)
			c.unread(-int64(n))
			s.left -= n
			s.queueAnswer(n)
		}
		c.pop()
		if s.left > 0 {
			c.push(s)
			continue
		}
		if s.many {
			continue // there may be more messages; finishStream ends the stream
		}
		if !s.plain {
			c.encode(s.id, flagEndStream, fieldFinished)
		}
		c.forgetCall(s)
	}
}

// queueAnswer queues the next n bytes of the answer.
func (s *stream) queueAnswer(n int) {
	q := &s.conn.queue
	if k := min(n, prefixSize-s.headed); k > 0 {
		q.buf = append(q.buf, s.head[s.headed:s.headed+k]...)
		s.headed += k
		n -= k
	}
	for n > 0 {
		b := s.body[0].ReadOnlyData()[s.off:]
		k := min(n, len(b))
		q.content(b[:k])
		s.off += k
		n -= k
		if k == len(b) {
			q.owned = append(q.owned, s.body[0])
			s.body, s.off = s.body[1:], 0
		}
	}
	if s.left == 0 {
		q.owned = append(q.owned, s.body...) // buffers without bytes
		s.body = nil
	}
}

// drop drops the answer. The kernel may still be reading from it, so it is freed with the queued
// batch. The caller must flush. mu is held.
func (s *stream) drop() {
	s.gone = true
	s.conn.queue.owned = append(s.conn.queue.owned, s.body...)
	s.conn.unread(-int64(s.left))
	s.body, s.left = nil, 0
}

// widen enlarges a stream's window. mu is held.
func (c *serverConn) widen(id uint32, n int64) error {
	s := c.streams[id]
	if s == nil {
		if c.ids.idle(id) {
			return broken(codeProtocol, "a WINDOW_UPDATE of stream %d, which was never opened", id)
		}
		return nil // its call is over
	}
	if s.window += n; s.window > maxWindow {
		return streamBroken(id, codeFlowControl, "the window of stream %d is too large", id)
	}
	if s.left > 0 && s.window > 0 && !s.queued {
		c.push(s)
	}
	return nil
}

// resize changes the window of all streams. mu is held.
func (c *serverConn) resize(by int64) error {
	for id := range c.streams {
		if c.widen(id, by) != nil {
			return broken(codeFlowControl, "an initial window that makes that of stream %d too large", id)
		}
	}
	return nil
}
