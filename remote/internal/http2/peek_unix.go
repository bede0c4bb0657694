//go:build unix

package http2

import (
	"net"
	"syscall"
)

// peek reports whether there is something to read, and whether the connection is still open, as far as this end knows. It does not block. On an
// encrypted connection it reports only the latter, since what waits there need not be a frame, and reading it could block.
func (c *Client) peek() (waiting, alive bool) {
	if c.in.buffered() > 0 {
		return true, true
	}
	nc, encrypted := c.nc, false
	if wrapper, ok := nc.(interface{ NetConn() net.Conn }); ok { // such as *tls.Conn
		nc, encrypted = wrapper.NetConn(), true
	}
	t, ok := nc.(*net.TCPConn)
	if !ok {
		return false, true
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return false, false
	}
	var one [1]byte
	var n int
	var failure error
	over := false
	if raw.Read(func(fd uintptr) bool {
		n, _, failure = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		if encrypted && n > 0 {
			over = hungUp(fd)
		}
		return true
	}) != nil {
		return false, false
	}
	if failure == syscall.EAGAIN || failure == syscall.EINTR {
		return false, true
	}
	return n > 0 && !encrypted, failure == nil && n > 0 && !over
}
