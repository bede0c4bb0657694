//go:build unix

package access

import (
	"os"
	"syscall"
)

// ownerOf is the user who owns a file; -1 if that is not known.
func ownerOf(info os.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}
