package e2e

import (
	"os/exec"
	"runtime"
	"syscall"
)

// starts are commands to start on the one thread that never ends: the kernel kills a process with
// PR_SET_PDEATHSIG when the *thread* that started it is gone.
var starts = func() chan func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
}()

// spawn starts a command in a process group of its own, which dies with this process.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	starts <- func() { done <- cmd.Start() }
	return <-done
}
