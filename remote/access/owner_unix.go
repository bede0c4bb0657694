//go:build unix

package access

import (
	"os"
	"syscall"
)

// ownerOf returns the user that owns a file; -1 if unknown.
func ownerOf(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
