//go:build unix

package http2

import (
	"net"
	"syscall"
)

// peek reports whether there is something to read, and whether the connection is still open, as
// far as this end knows. It does not block.
func (c *Client) peek() (waiting, alive bool) {
	if c.in.buffered() > 0 {
		return true, true
	}
	t, ok := c.nc.(*net.TCPConn)
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
	if raw.Read(func(fd uintptr) bool {
		n, _, failure = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		return true
	}) != nil {
		return false, false
	}
	if failure == syscall.EAGAIN || failure == syscall.EINTR {
		return false, true
	}
	return n > 0, failure == nil && n > 0
}
