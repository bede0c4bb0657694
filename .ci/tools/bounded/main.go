// Bounded runs a test binary, and ends it when a test hangs, with the test's name and the stacks of all goroutines.
//
//	go test -exec 'bounded -limit 2m' ./...
//
// A test hangs if it has run for longer than the limit while no subtest of it has begun or ended. The time that it waits for its turn
// (t.Parallel) does not count. The limit grows with the number of programs that want the processors, so that a busy machine ends no test
// that makes progress. go test's own -timeout bounds a whole package, and names a test only by its stack.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	limit := flag.Duration("limit", 2*time.Minute, "how long a test may run without progress")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "bounded: a test binary is needed")
		os.Exit(2)
	}
	os.Exit(run(flag.Args(), *limit))
}

// run runs the test binary, and returns its exit status.
func run(args []string, limit time.Duration) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return failed(err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return failed(err)
	}
	w := newWatch(time.Now)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				// The binary is gone if this fails, and its end is noticed below.
				_ = cmd.Process.Signal(s)
			case <-tick.C:
				if test, since := w.hung(time.Duration(busy() * float64(limit))); test != "" {
					fmt.Fprintf(os.Stderr, "bounded: %s has made no progress for %v\n", test, since.Round(time.Second))
					_ = cmd.Process.Signal(syscall.SIGQUIT) // as above; Go prints the stacks
					select {
					case <-done:
					case <-time.After(10 * time.Second): // it ignores the signal, or a process that it started keeps its output open
						_ = cmd.Process.Kill()
						_ = out.Close()
					}
					return
				}
			}
		}
	})
	copied := w.copy(os.Stdout, out)
	err = cmd.Wait()
	close(done)
	watching.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if code := exit.ExitCode(); code >= 0 {
			return code
		}
		return 2 // a signal
	}
	return failed(errors.Join(err, copied))
}

func failed(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "bounded:", err)
	return 2
}

// watch follows the tests of a binary by what it prints with -test.v.
type watch struct {
	now func() time.Time

	mu      sync.Mutex
	running map[string]time.Time // tests that run, by when they last made progress
}

func newWatch(now func() time.Time) *watch { return &watch{now: now, running: map[string]time.Time{}} }

// copy copies the output to dst, line by line, until it ends.
func (w *watch) copy(dst io.Writer, src io.Reader) error {
	in := bufio.NewReaderSize(src, 1<<16)
	whole := true // the next piece begins a line
	for {
		piece, err := in.ReadSlice('\n')
		if whole {
			w.line(string(piece[:min(len(piece), 512)]))
		}
		whole = err == nil
		if _, bad := dst.Write(piece); bad != nil {
			return errors.Join(bad, drain(in))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// drain reads what is left, so that the binary does not wait for room.
func drain(in io.Reader) error {
	_, err := io.Copy(io.Discard, in)
	return err
}

// line takes a line of the output, such as "=== RUN   TestX" or "--- PASS: TestX (0.00s)". With -test.v=test2json a SYN precedes those.
func (w *watch) line(s string) {
	s = strings.TrimLeft(strings.TrimPrefix(strings.TrimRight(s, "\r\n"), "\x16"), " ")
	what, rest, _ := strings.Cut(s, " ")
	if what != "===" && what != "---" {
		return
	}
	action, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	test, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if test == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	switch action {
	case "RUN":
		w.forgetSiblings(test)
		w.running[test] = now
	case "CONT":
		w.running[test] = now
	case "PAUSE", "PASS:", "FAIL:", "SKIP:":
		delete(w.running, test)
	default:
		return
	}
	for outer := range w.running {
		if strings.HasPrefix(test, outer+"/") {
			w.running[outer] = now
		}
	}
}

// forgetSiblings forgets the tests that have ended because another one beside them begins: parallel ones are paused until then. Without test2json, the end of a
// subtest is printed with that of the whole test. w.mu is held.
func (w *watch) forgetSiblings(test string) {
	outer := test[:strings.LastIndex(test, "/")+1]
	for other := range w.running {
		if inner, ok := strings.CutPrefix(other, outer); ok && inner != "" {
			delete(w.running, other)
		}
	}
}

// hung returns the test that has been without progress for longest, if that is longer than limit, and for how long.
func (w *watch) hung(limit time.Duration) (test string, since time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for name, at := range w.running {
		if d := now.Sub(at); d > limit && (d > since || d == since && len(name) > len(test)) {
			test, since = name, d
		}
	}
	return test, since
}

// busy returns the number of programs per processor that want to run, from 1 to 10, as the last minute's mean; 1 if the system does not
// report it.
func busy() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	var mean float64
	if _, err := fmt.Sscanf(string(b), "%g", &mean); err != nil {
		return 1
	}
	return min(max(1, mean/float64(runtime.NumCPU())), 10)
}
