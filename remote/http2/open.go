package http2

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// open begins a call.
func (c *serverConn) open(h header) error {
	switch {
	case h.stream%2 == 0:
		return broken(codeProtocol, "a client's headers on stream %d", h.stream)
	case h.stream > c.last:
		c.last = h.stream
		c.opening = &stream{conn: c, id: h.stream, ended: h.flags&flagEndStream != 0}
	case h.flags&flagEndStream == 0:
		return broken(codeProtocol, "headers of stream %d after stream %d", h.stream, c.last)
	}
	return c.opened(h)
}

// opened takes a part of a header list. Trailers tell nothing but that a request is over, and still
// change the table of the lists that follow.
func (c *serverConn) opened(h header) error {
	whole, err := c.headers(h)
	if err != nil || !whole {
		return err
	}
	if s := c.opening; s != nil {
		c.opening = nil
		return c.begin(s)
	}
	if s := c.find(h.stream); s != nil {
		c.over(s)
	}
	return nil
}

// find gives a call that is not over, or nil.
func (c *serverConn) find(id uint32) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// over notes that the client sends no more of a request.
func (c *serverConn) over(s *stream) {
	if s.ended = true; !s.begun && !s.declined {
		c.decline(s, status.Error(codes.Internal, "the call's request is not complete"))
	}
}

// begin finds the method of a call whose headers are there.
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
	s.window = c.initial
	leaving := c.leaving
	c.streams[s.id] = s
	c.mu.Unlock()
	if err := c.prepare(s, f, leaving); err != nil {
		c.decline(s, err)
		return nil
	}
	if s.method.Stream != nil {
		return c.serveStream(s)
	}
	if s.ended {
		c.over(s)
	}
	return nil
}

// prepare gives a call what its headers tell, or why it is declined.
func (c *serverConn) prepare(s *stream, f *headerFields, leaving bool) error {
	switch {
	case leaving:
		return status.Error(codes.Unavailable, "The server is stopping.")
	case f.size > maxHeaderList:
		return status.Errorf(codes.ResourceExhausted, "the call's headers take more than %d bytes", maxHeaderList)
	case f.method != "POST" || !strings.HasPrefix(f.contentType, "application/grpc"):
		return status.Errorf(codes.InvalidArgument, "this is a gRPC server; it does not answer %.20q with content %.100q", f.method, f.contentType)
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
	s.call.conn, s.call.stream = c, s
	return nil
}
