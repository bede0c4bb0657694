package http2

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// textType is the content type of text for people.
const textType = "text/plain; charset=utf-8"

// maxRequestLine is the maximum size in bytes of the first line of an HTTP/1 request that is answered.
const maxRequestLine = 8 << 10

// errNotHTTP2 ends a connection that does not begin as HTTP/2. No GOAWAY is sent for it.
var errNotHTTP2 = errors.New("http2: the connection does not begin as HTTP/2")

// answerHTTP1 tells an HTTP/1 client, such as a browser or a probe, what it has reached. It always returns an error,
// because the connection is of no further use.
func (c *serverConn) answerHTTP1() error {
	method, ok := c.requestLine()
	if c.nc.SetDeadline(time.Now().Add(closeTime)) != nil {
		return errNotHTTP2
	}
	if !ok {
		c.linger() // so that the client sees an end of file, not a reset
		return errNotHTTP2
	}
	c.server.config.Logger.Debug("a client of HTTP/1 was answered", "client", c.peer.Address, "method", method)
	about := c.server.config.About + "\n"
	c.mu.Lock()
	c.queue.buf = fmt.Appendf(c.queue.buf, "HTTP/1.1 426 Upgrade Required\r\nUpgrade: HTTP/2.0\r\nConnection: Upgrade, close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		textType, len(about))
	if method != "HEAD" {
		c.queue.buf = append(c.queue.buf, about...)
	}
	c.flush()
	c.mu.Unlock()
	c.linger()
	return errNotHTTP2
}

// requestLine waits for the first line of an HTTP/1 request and returns its method. ok is false if what came is not one.
func (c *serverConn) requestLine() (method string, ok bool) {
	for {
		line, _, whole := strings.Cut(string(c.in.peek()), "\n")
		method, rest, named := strings.Cut(line, " ")
		switch {
		case strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "", method == "" && named, len(line) > maxRequestLine:
			return "", false
		case whole:
			_, version, found := strings.Cut(rest, " ")
			return method, found && strings.HasPrefix(version, "HTTP/1.")
		case c.in.fill(c.in.buffered()+1) != nil:
			return "", false
		}
	}
}
