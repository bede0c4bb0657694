//go:build unix

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs beside the tests, in a process group of its own.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{} // closed when it has ended
	err  error         // of the end, readable afterwards
}

// logBuffer keeps what a process prints.
type logBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// tail is the log's last lines.
func (l *logBuffer) tail() string {
	const most = 60
	lines := strings.Split(strings.TrimRight(l.String(), "\n"), "\n")
	if cut := len(lines) - most; cut > 0 {
		lines = append([]string{fmt.Sprintf("… %d lines before", cut)}, lines[cut:]...)
	}
	return strings.Join(lines, "\n")
}

// save keeps a log that is too long to be shown whole, such as one with a dump of goroutines.
func (l *logBuffer) save(t testing.TB) {
	f, err := os.CreateTemp("", "troupe-e2e-*.log")
	if err == nil {
		_, err = f.WriteString(l.String())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Log(err)
		return
	}
	t.Logf("the whole log is in %s", f.Name())
}

// launch starts a program; both its outputs go to its log unless cmd has others.
func launch(name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, cmd: cmd, log: &logBuffer{}, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.log
	} else {
		cmd.Stdout = io.MultiWriter(cmd.Stdout, p.log)
	}
	cmd.Stderr = p.log
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the pipes
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// signal sends a signal to the process alone.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// freeze stops the process, and returns when all its threads have: after the signal alone some may go on for a while on a
// machine that is busy.
func (p *process) freeze() {
	p.signal(syscall.SIGSTOP)
	for {
		if _, err := syscall.Wait4(p.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != syscall.EINTR {
			return // it has stopped, or is gone
		}
	}
}

// kill ends the whole process group, and returns when the process is gone.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// wait waits for the end of the process and gives its exit code.
func (p *process) wait(limit time.Duration) (int, error) {
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-over.C:
		return 0, fmt.Errorf("%s (pid %d) has not ended within %v", p.name, p.cmd.Process.Pid, limit)
	}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stopTime bounds how long a task may take from SIGTERM to its end.
const stopTime = 10 * time.Second

// terminate asks the process to stop, as a service manager does, and tells when it does not do so
// in time with exit code 0. A report of the race detector makes another code.
func (p *process) terminate() error {
	if !p.running() {
		return fmt.Errorf("%s had ended before: %w", p.name, p.err)
	}
	p.signal(syscall.SIGTERM)
	code, err := p.wait(slack(stopTime))
	if err != nil {
		p.signal(syscall.SIGQUIT) // its goroutines into the log
		_, quit := p.wait(5 * time.Second)
		p.kill()
		return errors.Join(err, quit)
	}
	if code != 0 {
		return fmt.Errorf("%s: SIGTERM gave %v, not exit code 0", p.name, p.cmd.ProcessState)
	}
	return nil
}

// residentMiB is the memory that a process holds.
func (p *process) residentMiB(t testing.TB) float64 {
	t.Helper()
	return p.memory(t, "VmRSS")
}

// memory is one of the kernel's figures of a process's memory, in MiB.
func (p *process) memory(t testing.TB, figure string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skipf("no memory figures on this system: %v", err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		var kb float64
		if n, _ := fmt.Sscanf(line, figure+": %f kB", &kb); n == 1 {
			return kb / 1024
		}
	}
	t.Fatalf("no %s of %s", figure, p.name)
	return 0
}
