package http2

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// open handles the HEADERS frame that begins a call or ends its request.
func (c *serverConn) open(h header) error {
	last := h.flags&flagEndStream != 0
	c.opening, c.misplaced = nil, nil
	switch {
	case h.stream%2 == 0:
		return broken(codeProtocol, "a client's headers on stream %d", h.stream)
	case h.stream > c.ids.last:
		c.ids.open(h.stream)
		c.opening = &stream{conn: c, id: h.stream, ended: last, due: -1}
	default:
		if err := c.trailers(h.stream, last); err != nil {
			return err
		}
	}
	if last {
		c.ids.end(h.stream)
	}
	return c.opened(h)
}

// trailers checks whether headers may come on a stream that is not new. It stores a stream error in misplaced until they are
// read, and returns a connection error.
func (c *serverConn) trailers(id uint32, last bool) error {
	switch s := c.find(id); {
	case s != nil && s.ended:
		c.misplaced = streamBroken(id, codeStreamClosed, "headers after the end of stream %d", id)
	case s != nil && !last:
		c.misplaced = streamBroken(id, codeProtocol, "headers in the middle of stream %d", id)
	case s != nil:
	case c.ids.skipped(id):
		return broken(codeProtocol, "headers of stream %d after stream %d", id, c.ids.last)
	case c.ids.over(id):
		return broken(codeStreamClosed, "headers after the end of stream %d", id)
	}
	return nil
}

// opened handles a part of a header list. Trailers only mark the end of a request. They must be decoded all the same,
// because they change the compression table, and so must misplaced lists.
func (c *serverConn) opened(h header) error {
	whole, err := c.headers(h)
	if err != nil || !whole {
		return err
	}
	f := &c.fields
	if c.misplaced != nil {
		return c.misplaced
	}
	if s := c.opening; s != nil {
		c.opening = nil
		switch why := f.requestFault(); {
		case f.fault != nil:
			return f.fault
		case why != "":
			return streamBroken(s.id, codeProtocol, "malformed headers: %s", why)
		case s.ended && f.length > 0:
			return s.lengthFault()
		}
		s.due = f.length
		return c.begin(s)
	}
	s := c.find(h.stream)
	if s == nil {
		return nil // its call is over
	}
	switch why := f.trailerFault(); {
	case f.fault != nil:
		return f.fault
	case why != "":
		return streamBroken(s.id, codeProtocol, "malformed trailers: %s", why)
	case s.due > 0:
		return s.lengthFault()
	}
	c.over(s)
	return nil
}

// lengthFault returns the error for a request whose size differs from its content-length.
func (s *stream) lengthFault() error {
	return streamBroken(s.id, codeProtocol, "a request has more or less bytes than its content-length")
}

// find returns the call of a stream, or nil if it is over.
func (c *serverConn) find(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// over marks the end of a client's request.
func (c *serverConn) over(s *stream) {
	s.ended = true
	switch {
	case s.inbox != nil:
		c.closeMessages(s)
	case s.begun || s.declined:
	case s.refusal != 0:
		c.refuse(s)
	default:
		c.decline(s, status.Error(codes.Internal, "the call's request is not complete"))
	}
}

// begin starts a call whose headers have arrived.
func (c *serverConn) begin(s *stream) error {
	f := &c.fields
	s.credit = streamWindow
	c.mu.Lock()
	if len(c.streams) >= maxStreams || c.running >= maxStreams {
		c.queue.buf = appendReset(c.queue.buf, s.id, codeRefused) // the client may try again
		c.reply()
		c.mu.Unlock()
		return nil
	}
	c.earnOverhead(overheadPerCall)
	c.called.Store(true)
	s.window = c.initial
	leaving := c.leaving
	err := c.count(s)
	c.mu.Unlock()
	if err == nil {
		err = c.prepare(s, f, leaving)
	}
	if err != nil {
		c.decline(s, err)
		return nil
	}
	if s.refusal == 0 && s.method.Stream != nil {
		return c.serveStream(s)
	}
	if s.refusal == 0 && s.method.Bidi != nil {
		c.startBidi(s)
	}
	if s.ended {
		c.over(s)
	}
	return nil
}

// prepare sets up a call from its headers, or returns why it is declined. A request that is not gRPC's is refused when it
// has ended.
func (c *serverConn) prepare(s *stream, f *headerFields, leaving bool) error {
	switch {
	case leaving:
		return errStopping
	case f.size > maxHeaderList:
		return f.tooLarge()
	case f.method != "POST":
		s.refusal, s.bodyless = http.StatusMethodNotAllowed, f.method == "HEAD"
		return nil
	case !isGRPC(f.contentType):
		s.refusal = http.StatusUnsupportedMediaType
		return nil
	}
	if s.method = c.server.config.Lookup(f.path); s.method == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %.200s", f.path)
	}
	s.encoding = f.encoding
	if f.timeout != "" {
		d, ok := parseTimeout(f.timeout)
		if !ok {
			return status.Errorf(codes.Internal, "malformed grpc-timeout %.20q", f.timeout)
		}
		s.call.deadline = time.Now().Add(d)
	}
	s.call.conn, s.call.stream, s.call.authorization, s.call.trace = c, s, f.authorized, f.trace
	return nil
}
