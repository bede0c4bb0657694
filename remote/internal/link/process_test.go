package link

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/remote/spec"
)

// peerEnv makes the test binary a task of the cluster that it holds, for tests that need a real
// process to kill or to stop.
const peerEnv = "TROUPE_TEST_PEER"

// runPeer runs task 1 in this process until its input ends.
func runPeer(text string) error {
	s, err := spec.Parse(text)
	if err != nil {
		return err
	}
	task, err := s.Task("worker", 1)
	if err != nil {
		return err
	}
	lis, err := net.Listen("tcp", task.Address)
	if err != nil {
		return err
	}
	serveTest(lis, New(Config{Spec: s, Self: task, Boot: uint64(os.Getpid()), Call: callTest, Open: openTest, Sink: &headerSink{}}))
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// headerSink ends the process if a tensor differs from what its header says, unless that is empty.
type headerSink struct{ memory []byte }

func (s *headerSink) Begin(_ string, _, _ uint64, header []byte, size int) ([]byte, func(error), error) {
	s.memory = slices.Grow(s.memory[:0], size)[:size]
	want, dst := string(header), s.memory
	return dst, func(err error) {
		if err != nil || want == "" {
			return
		}
		if got := string(checkHeader(dst)); got != want {
			fmt.Fprintf(os.Stderr, "a tensor of checksum %s was announced as %s\n", got, want)
			os.Exit(1)
		}
	}, nil
}

func (*headerSink) Take(_ uint64, _ transfer.Key, t *tensor.Tensor) { t.Release() }

// checkHeader returns the header of a tensor for a headerSink.
func checkHeader(data []byte) []byte { return fmt.Appendf(nil, "%08x", checksum(data)) }

func startPeer(t testing.TB, s *spec.Spec) *exec.Cmd {
	t.Helper()
	c, line := startProcess(t, peerEnv+"="+s.String())
	if line != "ready\n" {
		t.Fatalf("the peer did not start: %q", line)
	}
	return c
}

// startProcess starts the test binary with an environment variable, and returns its first line. The process ends with
// the test.
func startProcess(t testing.TB, env string) (c *exec.Cmd, first string) {
	t.Helper()
	c = exec.Command(os.Args[0])
	c.Env = append(os.Environ(), env)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		// It may have been killed already, but must be waited for in any case.
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	first, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the process did not start: %q %v", first, err)
	}
	return c, first
}

func TestRealProcesses(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		limit  time.Duration
		why    string
	}{
		{syscall.SIGKILL, 2 * time.Second, "the connection broke"},
		{syscall.SIGSTOP, 5 * time.Second, "nothing was heard from it for 3.5s"},
	} {
		t.Run(strings.ReplaceAll(c.signal.String(), " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := testSpec(t, 2)
			a := startNode(t, s, 0, "", func(c *Config) { c.Timing = Timing{} })
			peer := startPeer(t, s)
			p, err := a.Ensure(within(t, patience), task1)
			if err != nil || p.Boot() != uint64(peer.Process.Pid) {
				t.Fatalf("boot %v, error %v", p, err)
			}
			down := make(chan error, 1)
			p.OnDown(func(err error) { down <- err })
			began := time.Now()
			if err := peer.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			wantError(t, wait(t, down, "OnDown"), status.Unavailable, c.why)
			if d := time.Since(began); d > c.limit {
				t.Errorf("the loss was noticed after %v, not within %v", d, c.limit)
			} else {
				t.Logf("the loss was noticed after %v", d)
			}
			began = time.Now()
			_, err = a.Ensure(within(t, patience), task1)
			wantError(t, err, status.Unavailable, "was lost: "+c.why)
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("Ensure took %v", d)
			}
		})
	}
}
