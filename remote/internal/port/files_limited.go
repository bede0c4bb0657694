//go:build linux || darwin

package port

import "syscall"

// OpenFiles returns how many files the process may open; 0 if that is not known.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
