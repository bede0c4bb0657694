package http2

import (
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Takes returns false for a message for which the kernel has no room, so that the sender can leave it to a
// goroutine that may block.
func TestTakes(t *testing.T) {
	near, far := tcpPair(t)
	c := &conn{}
	c.init(near, nil, 0)
	s := newStream(c, 1, largestFrame)
	if !s.Takes(64 << 10) {
		t.Error("an idle connection takes no message")
	}
	if s.Takes(64 << 20) {
		t.Error("a message larger than the kernel's room is taken")
	}
	if err := far.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	raw, err := near.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	piece, written := make([]byte, 64<<10), 0
	for s.Takes(1) { // the kernel passes on what it has taken, until the other end has no room either
		var n int
		var full error
		if err := raw.Control(func(fd uintptr) { n, full = unix.Write(int(fd), piece) }); err != nil {
			t.Fatal(err)
		}
		switch written += max(n, 0); {
		case full == unix.EAGAIN:
			runtime.Gosched()
		case full != nil:
			t.Fatal(full)
		case written > 64<<20:
			t.Fatal("64 MiB were taken that nobody reads")
		}
	}
}
