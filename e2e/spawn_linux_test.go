package e2e

import (
	"os/exec"
	"runtime"
	"syscall"
)

// starts receives functions that start commands, for a single thread that never ends: the kernel kills a process with PR_SET_PDEATHSIG when
// the *thread* that started it ends.
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

// spawn starts a command in a process group of its own. The command is killed when this process ends.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	starts <- func() { done <- cmd.Start() }
	return <-done
}
