//go:build unix && !linux

package e2e

import (
	"os/exec"
	"syscall"
)

// spawn starts a command in a process group of its own. Only on Linux is it killed when this process ends.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}
