package spectest

import (
	"os"
	"sync"
	"syscall"
)

// unforked runs what opens a socket and closes it again while no process is started: one that is has a copy of what
// is open until it runs its program, and the port would stay taken for as long.
func unforked(probe func() bool) bool {
	probePidfd()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return probe()
}

// probePidfd makes package os try its pidfds out. It does so once, at the latest for the first command of the process,
// and clones a process for it without the lock of forks.
var probePidfd = sync.OnceFunc(func() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release() // It fails only for a process that was released.
	}
})
