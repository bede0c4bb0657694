package simnet

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window bounds the unread bytes in one direction of a connection: a writer waits for room.
const window = 1 << 20

// conn is one end of a connection.
type conn struct {
	host, peer    *Host
	process       *Process
	local, remote *net.TCPAddr
	other         *conn

	// Guarded by Net.mu.
	change          sync.Cond
	in              stream // data from the other end
	read, write     deadline
	closed, aborted bool
}

// stream is one direction of a connection.
type stream struct {
	segments []segment
	bytes    int
	ended    bool // the writer has closed
}

type segment struct {
	at   time.Time
	data []byte
}

// connect makes both ends of a connection. Net.mu is held.
func connect(by *Process, l *listener) (dialed, accepted *conn) {
	from, to := by.host, l.host
	from.last++
	local := &net.TCPAddr{IP: from.parsed(), Port: from.last}
	dialed = &conn{host: from, peer: to, process: by, local: local, remote: l.address}
	accepted = &conn{host: to, peer: from, process: l.process, local: l.address, remote: local, other: dialed}
	dialed.other = accepted
	dialed.change.L, accepted.change.L = &from.net.mu, &from.net.mu
	from.conns[dialed], to.conns[accepted] = struct{}{}, struct{}{}
	return dialed, accepted
}

func (c *conn) Read(b []byte) (int, error) {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.fail("read", net.ErrClosed)
		case c.aborted:
			return 0, c.fail("read", syscall.ECONNRESET)
		case c.read.over():
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case n.passes(c.peer, c.host) && len(c.in.segments) > 0:
			if first := &c.in.segments[0]; !first.at.After(time.Now()) {
				m := copy(b, first.data)
				if first.data = first.data[m:]; len(first.data) == 0 {
					c.in.segments = c.in.segments[1:]
				}
				c.in.bytes -= m
				c.other.change.Broadcast()
				return m, nil
			}
		case n.passes(c.peer, c.host) && c.in.ended:
			return 0, io.EOF
		}
		c.change.Wait()
	}
}

func (c *conn) Write(b []byte) (int, error) {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	written := 0
	for {
		switch {
		case c.closed:
			return written, c.fail("write", net.ErrClosed)
		case c.aborted:
			return written, c.fail("write", syscall.ECONNRESET)
		case c.write.over():
			return written, c.fail("write", os.ErrDeadlineExceeded)
		case c.other.closed && n.passes(c.host, c.peer):
			return written, c.fail("write", syscall.EPIPE)
		case len(b) == 0:
			return written, nil
		}
		if room := window - c.other.in.bytes; room > 0 {
			m := min(room, len(b))
			at, lost := n.travel(c.host, c.peer)
			if lost {
				at = at.Add(resend)
			}
			if k := len(c.other.in.segments); k > 0 && at.Before(c.other.in.segments[k-1].at) {
				at = c.other.in.segments[k-1].at // after earlier segments
			}
			c.other.in.segments = append(c.other.in.segments, segment{at, bytes.Clone(b[:m])})
			c.other.in.bytes += m
			written += m
			b = b[m:]
			n.wakeAt(at, &c.other.change)
			continue
		}
		c.change.Wait()
	}
}

func (c *conn) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends the connection: the other end reads what was sent and then the end, or gets a reset if this end has unread data.
func (c *conn) Close() error {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return c.fail("close", net.ErrClosed)
	}
	c.closed = true
	c.read.stop()
	c.write.stop()
	delete(c.host.conns, c)
	c.other.in.ended = true
	if c.in.bytes > 0 {
		c.other.aborted = true
	}
	c.change.Broadcast()
	c.other.change.Broadcast()
	return nil
}

// reset ends the connection on both ends and drops what is in flight. Net.mu is held.
func (c *conn) reset() {
	for _, end := range []*conn{c, c.other} {
		end.aborted = true
		delete(end.host.conns, end)
		end.change.Broadcast()
	}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error  { return c.setDeadline(&c.read, t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.write, t) }

func (c *conn) setDeadline(d *deadline, t time.Time) error {
	n := c.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return c.fail("set", net.ErrClosed)
	}
	d.set(n, t, &c.change)
	return nil
}
