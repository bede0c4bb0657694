//go:build unix

package e2e

import (
	"bufio"
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

	"github.com/troupe-run/troupe/internal/extent"
)

// process is a program that runs beside the tests, in a process group of its own.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *logBuffer
	done chan struct{} // closed when the process has ended
	err  error         // the result of Wait, set before done is closed
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

// tail returns the log's last lines.
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

// freeze stops the process, and returns when all its threads have stopped: on a busy machine, some may run on for a while after the signal.
func (p *process) freeze() {
	p.signal(syscall.SIGSTOP)
	for {
		if _, err := syscall.Wait4(p.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != syscall.EINTR {
			return // it has stopped or ended
		}
	}
}

// kill kills the whole process group, and returns when the process has ended.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// wait waits for the end of the process and returns its exit code.
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

// terminate asks the process to stop, as a service manager does, and returns an error if it does not do so in time with exit code 0. A
// report of the race detector changes the code.
func (p *process) terminate() error {
	if !p.running() {
		return fmt.Errorf("%s had ended before: %w", p.name, p.err)
	}
	p.signal(syscall.SIGTERM)
	code, err := p.wait(extent.Slack(stopTime))
	if err != nil {
		p.signal(syscall.SIGQUIT) // dumps its goroutines into the log
		_, quit := p.wait(5 * time.Second)
		p.kill()
		return errors.Join(err, quit)
	}
	if code != 0 {
		return fmt.Errorf("%s: SIGTERM gave %v, not exit code 0", p.name, p.cmd.ProcessState)
	}
	return nil
}

// residentMiB returns the resident memory of a process.
func (p *process) residentMiB(t testing.TB) float64 {
	t.Helper()
	return p.memory(t, "VmRSS")
}

// memory returns one of the kernel's figures of a process's memory, in MiB.
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

// converse starts a program and returns its standard input and output; its standard error goes to its log.
func converse(t testing.TB, name string, cmd *exec.Cmd) (p *process, stdin io.WriteCloser, lines *bufio.Scanner) {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	cmd.Stdout = w
	if p, err = launch(name, cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		<-p.done
		_ = w.Close()
	}()
	return p, stdin, bufio.NewScanner(r)
}
