//go:build unix && !linux

package e2e

import (
	"os/exec"
	"syscall"
)

// spawn starts a command in a process group of its own. Only Linux ends it with this process.
func spawn(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}
