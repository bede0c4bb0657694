//go:build unix && !linux

package http2

// hungUp reports whether the other end of a socket sends nothing more, although there may still be something to read. This system does not tell.
func hungUp(uintptr) bool { return false }
