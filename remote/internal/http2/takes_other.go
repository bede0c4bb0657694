//go:build !linux

package http2

// Takes tells whether the kernel would take a message of n bytes at once, so that Send does not
// wait. This system is not asked.
func (s *Stream) Takes(int) bool { return false }

// socket is empty where the kernel is not asked.
type socket struct{}
