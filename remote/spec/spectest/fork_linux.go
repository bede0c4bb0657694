package spectest

import "syscall"

// unforked runs what opens a socket and closes it again while no process is started: one that is has a copy of what
// is open until it runs its program, and the port would stay taken for as long.
func unforked(probe func() bool) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return probe()
}
