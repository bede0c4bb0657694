package http2

import (
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendBuffer is what the kernel is asked to hold for a stream, in bytes.
const sendBuffer = 1 << 20

// Takes tells whether the kernel would take a message of n bytes at once, so that Send does not
// wait. It is a guess on the safe side, for one goroutine that sends.
func (s *Stream) Takes(n int) bool {
	raw := s.conn.rawConn()
	if raw == nil {
		return false
	}
	taken := false
	err := raw.Control(func(fd uintptr) {
		waiting, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		taken = err == nil && waiting+n <= s.conn.socket.room
	})
	return err == nil && taken
}

// socket is what the kernel is asked about.
type socket struct {
	once sync.Once
	raw  syscall.RawConn
	room int // bytes that it surely takes when it is empty
}

// rawConn is the socket, with a send buffer of a known size; nil if it has none.
func (c *conn) rawConn() syscall.RawConn {
	c.socket.once.Do(func() {
		nc := c.nc
		for {
			wrapped, ok := nc.(interface{ NetConn() net.Conn }) // such as *tls.Conn
			if !ok {
				break
			}
			nc = wrapped.NetConn()
		}
		t, ok := nc.(*net.TCPConn)
		if !ok || t.SetWriteBuffer(sendBuffer) != nil {
			return
		}
		raw, err := t.SyscallConn()
		if err != nil {
			return
		}
		c.socket.raw = raw
		// The system may allow less. What it tells is twice what was asked for, and it accounts for
		// up to two bytes where it holds one. Where it tells nothing there is no room to count on.
		_ = raw.Control(func(fd uintptr) {
			if size, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil {
				c.socket.room = size / 4
			}
		})
	})
	return c.socket.raw
}
