package http2

import (
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// sendBuffer is the size in bytes of a stream's send buffer that is requested from the kernel.
const sendBuffer = 1 << 20

// Takes reports whether the kernel would accept a message of n bytes at once, so that Send does not
// block. It is a conservative estimate, valid if only one goroutine sends.
func (s *Stream) Takes(n int) bool {
	if s.client && !s.settled.Load() {
		return false // the window is still small
	}
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

// socket is the socket of a connection and its capacity.
type socket struct {
	once sync.Once
	raw  syscall.RawConn
	room int // bytes that its empty send buffer is sure to accept
}

// rawConn returns the connection's socket, whose send buffer has a known size, or nil if there is none.
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
		// The system may allow less. It reports twice the size that was asked for, and may charge
		// two bytes for each one that it holds. If it reports nothing, room stays 0.
		_ = raw.Control(func(fd uintptr) {
			if size, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil {
				c.socket.room = size / 4
			}
		})
	})
	return c.socket.raw
}
