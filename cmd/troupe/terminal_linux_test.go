package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/queues/pipeline"
	"golang.org/x/sys/unix"
)

// terminal is a terminal of 100 columns and 30 lines that the command runs on.
type terminal struct {
	t    *testing.T
	keys *os.File
	cmd  *exec.Cmd

	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

// onTerminal runs the command in a process of its own, on a terminal.
func onTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, keys: master, cmd: exec.CommandContext(t.Context(), self), more: make(chan struct{}, 1)}
	x.cmd.Args = append([]string{"troupe"}, args...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			x.mu.Lock()
			x.text.Write(b[:n])
			x.mu.Unlock()
			select {
			case x.more <- struct{}{}:
			default:
			}
			if err != nil {
				return // the command has ended
			}
		}
	}()
	t.Cleanup(func() {
		if x.cmd.ProcessState == nil {
			_ = x.cmd.Process.Kill()
			_ = x.cmd.Wait()
		}
		<-over
		master.Close()
	})
	return x
}

// shows waits until the terminal newly shows a text.
func (x *terminal) shows(pattern string) string {
	x.t.Helper()
	want := regexp.MustCompile(pattern)
	limit := time.After(patience)
	for {
		x.mu.Lock()
		text := x.text.String()
		if want.MatchString(text) {
			x.text.Reset()
			x.mu.Unlock()
			return text
		}
		x.mu.Unlock()
		select {
		case <-x.more:
		case <-limit:
			x.t.Fatalf("the terminal does not show %q: %q", pattern, text)
		}
	}
}

func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := x.keys.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) ends() int {
	x.t.Helper()
	_ = x.cmd.Wait() // the exit code has the result
	return x.cmd.ProcessState.ExitCode()
}

// TestTerminal runs, on a terminal, the commands that behave differently there.
func TestTerminal(t *testing.T) {
	server := start(t, nil, "serve", "--local=localhost:0")
	at := server.target()
	top := onTerminal(t, "top", at, "--interval", "100ms")
	top.shows(`\x1b\[\?1049h.*1 task: 1 up; .* sorted by name`)
	top.press("c")
	top.shows(`sorted by CPU(.|\n)*task:0 +up +\d+%`)
	top.press("x") // no key
	top.shows(`sorted by CPU`)
	top.press("q")
	top.shows(`\x1b\[\?25h\x1b\[\?1049l`)
	if code := top.ends(); code != exit.CodeOK {
		t.Errorf("top ended with %d", code)
	}

	for answer, want := range map[string]struct {
		code int
		text string
	}{"y\n": {exit.CodeOK, `emptied the containers a, b; the sessions of`}, "\n": {exit.CodeFailed, `nothing was done`}, "no\n": {exit.CodeFailed, `nothing was done`}} {
		reset := onTerminal(t, "reset", at, "a", "b")
		reset.shows(`This closes all sessions of grpc://\S+ and empties the containers a, b on all tasks of its cluster. There is nothing in a, b now. Continue\? \[y/N\] `)
		reset.press(answer)
		reset.shows(want.text)
		if code := reset.ends(); code != want.code {
			t.Errorf("reset that is answered with %q ended with %d", answer, code)
		}
	}
}

// TestQuestionsComeAfterLooking checks that each command that asks whether to go on asks nobody for what it cannot do.
func TestQuestionsComeAfterLooking(t *testing.T) {
	server := start(t, nil, "serve", "--local=localhost:0")
	at := server.target()
	asking := 0
	for _, cmd := range leaves(newRoot(os.Stdin)) {
		if cmd.Flags().Lookup("yes") == nil {
			continue
		}
		asking++
		for _, operands := range operandLists(t, cmd) {
			x := onTerminal(t, append([]string{cmd.Name(), "127.0.0.1:1"}, operands...)...)
			text := x.shows("127.0.0.1:1")
			if code := x.ends(); code != exit.CodeUnreachable || strings.Contains(text, "Continue?") {
				t.Errorf("%s of a cluster that is not there ended with %d: %s", cmd.Name(), code, text)
			}
		}
		if strings.HasSuffix(cmd.Use, " TASK") { // containers are made by those who name them
			x := onTerminal(t, cmd.Name(), at, "worker:7")
			text := x.shows("the cluster has no task /job:worker/replica:0/task:7")
			if code := x.ends(); code != exit.CodeFailed || strings.Contains(text, "Continue?") {
				t.Errorf("%s of a task that the cluster does not have ended with %d: %s", cmd.Name(), code, text)
			}
		}
		var out bytes.Buffer
		operands := map[string][]string{"drain": {"local:0"}}[cmd.Name()]
		if code := run(t.Context(), append([]string{cmd.Name(), at}, operands...), nil, &out, &out); code != exit.CodeUsage || !strings.Contains(out.String(), "nothing was done: standard input is not a terminal") || !strings.Contains(out.String(), "give --yes (This ") {
			t.Errorf("%s without a terminal ended with %d: %s", cmd.Name(), code, out.String())
		}
	}
	if asking < 2 {
		t.Errorf("%d commands ask", asking)
	}
}

// TestResetOfDurableContainers answers the second question, which comes if a container has something on disk.
func TestResetOfDurableContainers(t *testing.T) {
	server := start(t, nil, "serve", "--local=localhost:0", "--data", t.TempDir(), "--durable", "jobs")
	at := server.target()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := troupe.Dial(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	session, err := c.NewSession(ctx, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	queue, err := pipeline.Declare[int64](pipeline.Queue{Name: "work", Container: "jobs"})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{KeepOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := producer.Put(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := producer.Detach(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		answer string
		code   int
		text   string
	}{{"n\n", exit.CodeFailed, `nothing was done`}, {"y\n", exit.CodeOK, `emptied the containers other, jobs; the sessions of`}} {
		reset := onTerminal(t, "reset", at, "other", "jobs")
		reset.shows(`empties the containers other, jobs on all tasks of its cluster. There is nothing in other now. Continue\? \[y/N\] `)
		reset.press("y\n")
		reset.shows(`jobs is on disk, too, and cannot be restored once deleted there. Continue\? \[y/N\] `)
		reset.press(want.answer)
		reset.shows(want.text)
		if code := reset.ends(); code != want.code {
			t.Errorf("reset that is answered with %q ended with %d", want.answer, code)
		}
	}
}
