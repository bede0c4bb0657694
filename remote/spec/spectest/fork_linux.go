package spectest

import (
	"os"
	"sync"
	"syscall"
)

// unforked runs probe, which opens and closes sockets, while no process is being forked. A forked child has a copy of the open sockets
// until it executes its program, and would keep the port in use until then.
func unforked(probe func() bool) bool {
	probePidfd()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return probe()
}

// probePidfd makes package os test for pidfds. Package os does so once, at the latest for the first command of the process, and clones a
// process for it without holding the fork lock.
var probePidfd = sync.OnceFunc(func() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release() // fails only for a process that was released
	}
})
