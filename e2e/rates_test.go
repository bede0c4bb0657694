//go:build unix

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc"
)

// TestWireRates compares tensors and steps with what the machine itself can do, in turn and in the same run, and prints a table. It demands
// far less than docs/wire.md states, since the machine may be busy with something else.
func TestWireRates(t *testing.T) {
	measures(t)
	const size = 64 * mebibyte
	raw, bare := rawPeer(t, size), barePeer(t)

	t.Log("| | measured | beside | ratio |")
	t.Log("| --- | --- | --- | --- |")
	for _, form := range []struct {
		name  string
		flags []string
	}{{"", nil}, {"over the connection: ", []string{"--lending=false"}}} {
		c := newCluster(t, "ps=1,worker=1", form.flags...)
		s := openSession(t, clientOf(t, c.task("worker", 0)), graphOf(append(variableOf("v", "/job:ps", size/4),
			on(with(node("size", "Size", float, "v_read"), "out_type", dtypeAttr(int64T)), "/job:worker"),
			on(node("here", "NoOp", 0), "/job:worker"), on(node("there", "NoOp", 0), "/job:ps"))...))
		ctx := patient(t)
		runs := func(targets ...string) func() error {
			return func() error {
				_, err := s.Run(ctx, nil, nil, targets)
				return err
			}
		}
		transfer := func() error {
			n, err := runInt64(ctx, s, nil, "size:0")
			if err == nil && n != size/4 {
				err = fmt.Errorf("%d elements came", n)
			}
			return err
		}
		for _, prepare := range []func() error{runs("v_set"), transfer, runs("here"), runs("there")} {
			if err := prepare(); err != nil {
				t.Fatal(err)
			}
		}

		took := inTurn(t, 10, measured{"raw", 4, raw}, measured{"transfer", 4, transfer})
		bandwidth := float64(took["raw"]) / float64(took["transfer"])
		t.Logf("| %s64 MiB from task to task | %s | raw TCP %s | %.2f |", form.name, rate(size, took["transfer"]), rate(size, took["raw"]), bandwidth)

		beside := during(t, 2*time.Second, runs("there"), transfer)
		t.Logf("| %sno_op across tasks beside it | %v | | |", form.name, beside)

		took = inTurn(t, 10, measured{"bare", 200, bare}, measured{"here", 200, runs("here")}, measured{"there", 200, runs("there")})
		here, there := float64(took["here"])/float64(took["bare"]), float64(took["there"])/float64(took["bare"])
		t.Logf("| %sno_op on one task | %v | bare gRPC %v | %.2f |", form.name, took["here"], took["bare"], here)
		t.Logf("| %sno_op across tasks | %v | bare gRPC %v | %.2f |", form.name, took["there"], took["bare"], there)

		if bandwidth < 0.2 || beside > 50*time.Millisecond || here > 10 || there > 15 {
			t.Error("something is slower than a busy machine explains")
		}
	}
}

// measured is something to do a number of times before it is the others' turn.
type measured struct {
	name  string
	times int
	do    func() error
}

// inTurn measures several things in turn, so that busy moments affect all of them. It returns the first quartile of the times of each,
// which a machine that is busy half of the time does not affect.
func inTurn(t *testing.T, rounds int, what ...measured) map[string]time.Duration {
	t.Helper()
	took := map[string][]time.Duration{}
	for range rounds {
		for _, m := range what {
			for range m.times {
				begun := time.Now()
				if err := m.do(); err != nil {
					t.Fatal(err)
				}
				took[m.name] = append(took[m.name], time.Since(begun))
			}
		}
	}
	quarter := map[string]time.Duration{}
	for name, d := range took {
		slices.Sort(d)
		quarter[name] = d[len(d)/4].Round(100 * time.Nanosecond)
	}
	return quarter
}

// during returns the median time of what, which is repeated while beside is repeated.
func during(t *testing.T, long time.Duration, what, beside func() error) time.Duration {
	t.Helper()
	var failed error
	var other sync.WaitGroup
	end := make(chan struct{})
	other.Go(func() {
		for failed == nil {
			select {
			case <-end:
				return
			default:
				failed = beside()
			}
		}
	})
	var took []time.Duration
	for begun := time.Now(); time.Since(begun) < long; {
		now := time.Now()
		if err := what(); err != nil {
			t.Error(err)
			break
		}
		took = append(took, time.Since(now))
	}
	close(end)
	other.Wait()
	if failed != nil {
		t.Error(failed)
	}
	return median(took).Round(100 * time.Nanosecond)
}

func rate(bytes int, took time.Duration) string {
	return fmt.Sprintf("%.0f MiB/s", float64(bytes)/mebibyte/took.Seconds())
}

// The peer process of a measurement without Troupe is this program in another role, which the environment names.
const (
	roleVariable = "TROUPE_E2E_ROLE"
	roleRaw      = "raw"  // reads messages of rawSize from TCP, and answers each with a byte
	roleBare     = "bare" // answers RunStep with nothing, over gRPC
	rawSize      = "TROUPE_E2E_RAW_SIZE"
)

// playRole runs the peer process of a measurement: it prints its address and serves until it is killed.
func playRole(role string) error {
	switch role {
	case roleActors:
		return playActors()
	case roleHostile:
		return playHostile()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	switch role {
	case roleRaw:
		var size int
		if _, err := fmt.Sscan(os.Getenv(rawSize), &size); err != nil {
			return err
		}
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		buffer := make([]byte, size)
		for {
			if _, err := io.ReadFull(conn, buffer); err != nil {
				return err
			}
			if _, err := conn.Write(buffer[:1]); err != nil {
				return err
			}
		}
	case roleBare:
		s := grpc.NewServer()
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "tensorflow.MasterService", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
			MethodName: "RunStep", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return &corepb.RunStepResponse{}, decode(&corepb.RunStepRequest{})
			}}}}, nil)
		return s.Serve(l)
	}
	return fmt.Errorf("nobody knows the role %q", role)
}

// startRole starts this program in a role and returns its address.
func startRole(t *testing.T, role string, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	r, w := io.Pipe()
	cmd.Stdout = w
	p, err := launch(role, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	go func() {
		<-p.done
		_ = w.Close()
	}()
	addr, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, p.log.tail())
	}
	return strings.TrimSpace(addr)
}

// rawPeer returns a function that sends a message over TCP to another process and waits until that has read it.
func rawPeer(t *testing.T, size int) func() error {
	t.Helper()
	conn, err := net.Dial("tcp", startRole(t, roleRaw, fmt.Sprintf("%s=%d", rawSize, size)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	message := make([]byte, size)
	for i := range message {
		message[i] = byte(i)
	}
	return func() error {
		_, err := conn.Write(message)
		var one [1]byte
		_, read := io.ReadFull(conn, one[:])
		return errors.Join(err, read)
	}
}

// barePeer returns a function that calls RunStep in another process, whose answer is empty.
func barePeer(t *testing.T) func() error {
	t.Helper()
	m, err := dial(startRole(t, roleBare))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	ctx := patient(t)
	return func() error {
		_, err := m.runStep(ctx, &corepb.RunStepRequest{SessionHandle: "0123456789abcdef", Target: []string{"there"}, RequestId: 1 << 60})
		return err
	}
}
