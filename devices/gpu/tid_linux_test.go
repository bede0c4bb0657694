package gpu

import "syscall"

// thread returns the id of the calling thread.
func thread() int { return syscall.Gettid() }
