//go:build !linux

package http2

// Takes reports whether the kernel would accept a message of n bytes at once, so that Send does not
// block. On this system it is not known.
func (s *Stream) Takes(int) bool { return false }

// socket is empty on this system.
type socket struct{}
