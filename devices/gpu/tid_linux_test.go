package gpu

import "syscall"

// thread names the calling thread.
func thread() int { return syscall.Gettid() }
