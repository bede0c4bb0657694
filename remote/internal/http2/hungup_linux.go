package http2

import "golang.org/x/sys/unix"

// hungUp reports whether the other end of a socket sends nothing more, although there may still be something to read.
func hungUp(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}
