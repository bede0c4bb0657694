package link

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/spec/spectest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	for env, run := range map[string]func(string) error{peerEnv: runPeer, ownerEnv: runOwner} {
		if text := os.Getenv(env); text != "" {
			if err := run(text); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// quick is a timing for tests on a busy machine.
var quick = Timing{Beat: 20 * time.Millisecond, Silence: 5 * time.Second, Handshake: 3 * time.Second, First: 5 * time.Second, Again: 3 * time.Second}

// silent is a timing for tests that wait for silence.
func silent(c *Config) { c.Timing.Silence = 300 * time.Millisecond }

const patience = 30 * time.Second

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func testSpec(t testing.TB, n int) *spec.Spec {
	t.Helper()
	s, err := spec.Parse("worker=" + strings.Join(spectest.Addresses(t, n), ","))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// node is a process of the cluster: links and their server.
type node struct {
	*Links
	server *testServer
	system *actor.ActorSystem
	killed sync.Once
	ended  sync.Once
}

type option func(*Config)

// startNode starts a task; bind, if set, is where it listens instead of at its address.
func startNode(t testing.TB, s *spec.Spec, index int, bind string, options ...option) *node {
	t.Helper()
	task, err := s.Task("worker", index)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Spec: s, Self: task, Boot: rand.Uint64(), Call: callTest, Open: openTest, Confirm: true, Logger: slog.New(slog.DiscardHandler), Timing: quick,
		Devices: []device.Attributes{{Name: task.Name() + "/device:CPU:0", Type: "CPU", MemoryLimit: 1 << 30, Incarnation: 7}}}
	for _, o := range options {
		o(&c)
	}
	if bind == "" {
		bind = task.Address
	}
	lis, err := net.Listen("tcp", bind)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Links: New(c), system: c.System}
	n.attach = attachOwn
	if n.system != nil {
		n.system.ProcessRegistry.Address = task.Address
		n.system.ProcessRegistry.RegisterAddressResolver(n.Resolve)
	}
	n.server = serveTest(lis, n.Links)
	t.Cleanup(n.stop)
	return n
}

// stop ends the node as its owner would, unless it has ended.
func (n *node) stop() { n.ended.Do(n.end) }

func (n *node) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		panic(err)
	}
	n.kill()
	if n.system != nil {
		n.system.Shutdown()
	}
}

// kill closes the listener and all connections abruptly, as the system does for a killed process.
func (n *node) kill() {
	n.cancel()
	n.killed.Do(n.server.stop)
}

// proxy forwards TCP connections until it freezes, and then keeps them open and silent.
type proxy struct {
	lis    net.Listener
	frozen chan struct{}
	work   sync.WaitGroup
	mu     sync.Mutex
	conns  []net.Conn
}

func startProxy(t testing.TB, address, to string) *proxy {
	t.Helper()
	lis, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{lis: lis, frozen: make(chan struct{})}
	p.work.Go(func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			p.work.Go(func() { p.copy(in, out) })
			p.work.Go(func() { p.copy(out, in) })
		}
	})
	t.Cleanup(func() {
		lis.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	})
	return p
}

func (p *proxy) copy(dst, src net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		select {
		case <-p.frozen:
			return // neither forward nor close
		default:
		}
		if err != nil {
			dst.Close()
			return
		}
		if _, err := dst.Write(b[:n]); err != nil {
			src.Close()
			return
		}
	}
}

func (p *proxy) freeze() { close(p.frozen) }

// downs collects the calls of a watch.
type downs chan string

func watch(l *Links) downs {
	d := make(downs, 16)
	l.Watch(func(task string, err error) { d <- fmt.Sprintf("%s: %v", task, err) })
	return d
}

func (d downs) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-d:
		if !strings.Contains(got, want) {
			t.Errorf("watch: %s, want %s", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("watch told nothing, want %s", want)
	}
}

func (d downs) none(t *testing.T) {
	t.Helper()
	select {
	case got := <-d:
		t.Errorf("watch: %s", got)
	default:
	}
}

func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

// waitAccepted waits until a link that the other task has opened is in use, which may be after the other task has got the welcome.
func waitAccepted(t testing.TB, k *link) {
	t.Helper()
	for end := time.Now().Add(patience); k.accepted.Load() == nil; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the link is not there")
		}
	}
}

func wantError(t *testing.T, err error, code status.Code, parts ...string) {
	t.Helper()
	if status.CodeOf(err) != code {
		t.Errorf("code %v of %v, want %v", status.CodeOf(err), err, code)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}
