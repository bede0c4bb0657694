package http2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/remote/internal/freed/freedtest"
)

func newClient(t testing.TB, address string) *Client {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return newClientOn(t, nc)
}

func newClientOn(t testing.TB, nc net.Conn) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := NewClient(ctx, nc, "http", nc.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// called makes a call and returns the answer, read at once.
func called(ctx context.Context, c *Client, path string, request ...[]byte) (answer []byte, err error) {
	err = c.Call(ctx, path, request, func(a *Answer) error {
		answer = make([]byte, a.Size())
		return a.ReadFull(answer)
	})
	return answer, err
}

// otherServer is grpc-go's server, with its small initial windows.
func otherServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOther(t, l)
	return l.Addr().String()
}

// serveOther serves a listener's connections by grpc-go's server.
func serveOther(t *testing.T, l net.Listener) {
	t.Helper()
	handle := func(do func(ctx context.Context, b []byte) ([]byte, error)) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
		return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			m := &message{}
			if err := decode(m); err != nil {
				return nil, err
			}
			b, err := do(ctx, m.data)
			return &message{data: b}, err
		}
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(testCodec{}), grpc.MaxRecvMsgSize(1<<30), grpc.MaxConcurrentStreams(8))
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "t", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		{MethodName: "echo", Handler: handle(func(_ context.Context, b []byte) ([]byte, error) { return b, nil })},
		{MethodName: "fail", Handler: handle(func(_ context.Context, b []byte) ([]byte, error) {
			return nil, status.Error(codes.FailedPrecondition, string(b))
		})},
		{MethodName: "wait", Handler: handle(func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		})},
	}}, nil)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// onBoth runs a test against this package's server and another implementation.
func onBoth(t *testing.T, test func(t *testing.T, c *Client)) {
	t.Run("own", func(t *testing.T) { test(t, newClient(t, newTestServer(t).listener.Addr().String())) })
	t.Run("other", func(t *testing.T) { test(t, newClient(t, otherServer(t))) })
}

func TestClientCalls(t *testing.T) {
	onBoth(t, func(t *testing.T, c *Client) {
		for _, size := range []int{0, 1, 100, gatherBelow, inputSize, 100 << 10, 3 << 20, 40 << 20} {
			request := make([]byte, size)
			freedtest.Fill(request, alphabet)
			answer, err := called(t.Context(), c, "/t/echo", request[:size/3], request[size/3:])
			if err != nil || !bytes.Equal(answer, request) {
				t.Fatalf("%d bytes: %d came, %v", size, len(answer), err)
			}
		}
	})
}

func TestClientErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, c *Client) {
		for range 3 {
			_, err := called(t.Context(), c, "/t/fail", []byte("ü % \n"))
			if s := status.Convert(err); s.Code() != codes.FailedPrecondition || s.Message() != "ü % \n" {
				t.Error(err)
			}
			if _, err := called(t.Context(), c, "/t/none", nil); status.Code(err) != codes.Unimplemented {
				t.Error(err)
			}
			own := errors.New("what read gives")
			if err := c.Call(t.Context(), "/t/echo", [][]byte{make([]byte, 1<<20)}, func(a *Answer) error {
				if err := a.ReadFull(make([]byte, 10)); err != nil {
					t.Error(err)
				}
				return own
			}); !errors.Is(err, own) {
				t.Error(err)
			}
			if b, err := called(t.Context(), c, "/t/echo", []byte("works")); err != nil || string(b) != "works" {
				t.Errorf("%q, %v", b, err)
			}
		}
	})
}

// An answer with larger headers than the client accepts fails only its own call.
func TestClientOfLargeHeaders(t *testing.T) {
	c := newClient(t, newTestServer(t).addr())
	for range 3 {
		if _, err := called(t.Context(), c, "/t/fail", bytes.Repeat([]byte("x"), 100_000)); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
		if b, err := called(t.Context(), c, "/t/echo", []byte("works")); err != nil || string(b) != "works" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

func TestClientReadsInPieces(t *testing.T) {
	onBoth(t, func(t *testing.T, c *Client) {
		request := make([]byte, 1<<20)
		freedtest.Fill(request, alphabet)
		var answer []byte
		err := c.Call(t.Context(), "/t/echo", [][]byte{request}, func(a *Answer) error {
			for len(answer) < a.Size() {
				b, err := a.Piece()
				if err != nil || len(b) == 0 {
					return fmt.Errorf("after %d bytes: %d more, %w", len(answer), len(b), err)
				}
				answer = append(answer, b...)
				some := make([]byte, min(7, a.Size()-len(answer)))
				if err := a.ReadFull(some); err != nil {
					return err
				}
				answer = append(answer, some...)
			}
			if _, err := a.Piece(); err == nil {
				t.Error("there is more than the message")
			}
			return nil
		})
		if err != nil || !bytes.Equal(answer, request) {
			t.Errorf("%d bytes, %v", len(answer), err)
		}
	})
}

// Concurrent calls, small and large, some of them cancelled, do not mix.
func TestClientOfManyGoroutines(t *testing.T) {
	onBoth(t, func(t *testing.T, c *Client) {
		var all sync.WaitGroup
		for g := range 24 {
			all.Go(func() {
				for i := range 12 {
					size := []int{10, 5000, 200 << 10, 1500 << 10}[(g+i)%4]
					request := bytes.Repeat([]byte{byte(g), byte(i)}, size/2)
					ctx, cancel := context.WithCancel(t.Context())
					given := (g+i)%5 == 0
					if given {
						time.AfterFunc(time.Duration(i*50)*time.Microsecond, cancel)
					}
					answer, err := called(ctx, c, "/t/echo", request)
					cancel()
					if given && status.Code(err) == codes.Canceled {
						continue
					}
					if err != nil || !bytes.Equal(answer, request) {
						t.Errorf("%d bytes: %d came, %v", size, len(answer), err)
						return
					}
				}
			})
		}
		all.Wait()
		if !c.Ready() {
			t.Error("the connection is gone")
		}
	})
}

func TestClientGivesUp(t *testing.T) {
	onBoth(t, func(t *testing.T, c *Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := called(ctx, c, "/t/wait", nil); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		var both sync.WaitGroup
		for range 2 { // one of them reads
			both.Go(func() {
				if _, err := called(ctx, c, "/t/wait", nil); status.Code(err) != codes.Canceled {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if b, err := called(t.Context(), c, "/t/echo", []byte("works")); err != nil || string(b) != "works" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// A server that stops accepts no call that it does not answer.
func TestClientOfAServerThatGoes(t *testing.T) {
	s := newTestServer(t)
	c := newClient(t, s.listener.Addr().String())
	waiting := make(chan error, 1)
	go func() {
		b, err := called(context.Background(), c, "/t/wait", []byte("x"))
		if err == nil && string(b) != "x" {
			err = fmt.Errorf("%q came", b)
		}
		waiting <- err
	}()
	<-s.entered
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(ctx, patience) }()
	eventually(t, "the server goes", func() bool { return !c.Ready() })
	if _, err := called(t.Context(), c, "/t/echo", nil); !errors.Is(err, ErrNotSent) {
		t.Error(err)
	}
	close(s.release)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A connection that ended while it was idle is not used for another call, whether or not its goroutine was reading then, and whether or not it is
// encrypted.
func TestClientOfAConnectionThatEnded(t *testing.T) {
	config := testTLS(t)
	secure := newTestServerOn(t, func(l net.Listener) net.Listener { return tls.NewListener(l, config) })
	plain := newTestServer(t)
	for _, watched := range []bool{false, true} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("watched=%v encrypted=%v", watched, encrypted), func(t *testing.T) {
				for range 100 {
					s, dial := plain, net.Dial
					if encrypted {
						s, dial = secure, func(network, address string) (net.Conn, error) { return tls.Dial(network, address, config) }
					}
					nc, err := dial("tcp", s.listener.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					c := newClientOn(t, nc)
					if _, err := called(t.Context(), c, "/t/echo", nil); err != nil {
						t.Fatal(err)
					}
					c.mu.Lock()
					c.used = time.Now().Add(-time.Minute)
					if watched {
						c.askWatcher()
					}
					c.mu.Unlock()
					eventually(t, "the connection's goroutine reads", func() bool {
						c.mu.Lock()
						defer c.mu.Unlock()
						return c.between == watched
					})
					for _, end := range s.all() {
						if end.nc.RemoteAddr().String() == nc.LocalAddr().String() {
							end.shut(errSilent)
						}
					}
					if _, err := called(t.Context(), c, "/t/echo", nil); !errors.Is(err, ErrNotSent) {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// A connection may turn out to be reset while a request is being written to it. The call was not sent if the write then fails, or if its
// batch waited for that write; it may have run otherwise.
func TestClientOfAConnectionThatIsResetMeanwhile(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		t.Run(fmt.Sprintf("accepted=%v", accepted), func(t *testing.T) {
			s := newTestServer(t)
			plain, err := net.Dial("tcp", s.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			nc := &stalling{Conn: plain, accepted: accepted, writes: make(chan struct{}), closed: make(chan struct{})}
			c, err := NewClient(withDeadline(t), nc, "http", "server")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			nc.stalled.Store(true)
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { _, err := called(t.Context(), c, "/t/echo", []byte("first")); first <- err }()
			<-nc.writes
			go func() { _, err := called(t.Context(), c, "/t/echo", []byte("second")); second <- err }()
			eventually(t, "the second request waits", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return !c.queue.empty() && len(c.calls) == 2
			})
			c.lost(syscall.ECONNRESET)
			if err := <-first; errors.Is(err, ErrNotSent) == accepted || accepted && status.Code(err) != codes.Unavailable {
				t.Errorf("the first call: %v", err)
			}
			if err := <-second; !errors.Is(err, ErrNotSent) {
				t.Errorf("the second call: %v", err)
			}
		})
	}
}

// stalling is a connection on which, once stalled, a write ends when the connection is closed.
type stalling struct {
	net.Conn
	accepted bool // such a write succeeds
	stalled  atomic.Bool
	writes   chan struct{} // receives from each stalled write
	closed   chan struct{}
	once     sync.Once
}

func (s *stalling) Write(b []byte) (int, error) {
	if !s.stalled.Load() {
		return s.Conn.Write(b)
	}
	s.writes <- struct{}{}
	<-s.closed
	if s.accepted {
		return len(b), nil
	}
	return 0, syscall.ECONNRESET
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// A client without calls answers pings.
func TestIdleClientAnswersPings(t *testing.T) {
	s := newTestServer(t)
	c := newClient(t, s.listener.Addr().String())
	if _, err := called(t.Context(), c, "/t/echo", nil); err != nil {
		t.Fatal(err)
	}
	server := s.all()[0]
	before := server.in.reads.Load()
	eventually(t, "the call has ended", server.ping)
	eventually(t, "the ping is answered", func() bool { return server.in.reads.Load() > before })
}

func BenchmarkClient(b *testing.B) {
	s := newTestServer(b)
	c := newClient(b, s.listener.Addr().String())
	request := [][]byte{make([]byte, 64)}
	read := func(a *Answer) error { _, err := a.Piece(); return err }
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Call(b.Context(), "/t/inline", request, read); err != nil {
			b.Fatal(err)
		}
	}
}

// A caller does not wait for the server's greeting, and its first call fails if what comes is not one.
func TestCallerOfSomethingElse(t *testing.T) {
	for name, answer := range map[string]func(r *raw){
		"nothing":     func(r *raw) { r.nc.Close() },
		"HTTP/1":      func(r *raw) { io.WriteString(r.nc, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"a PING":      func(r *raw) { r.fr.WritePing(false, [8]byte{}) },
		"an answer":   func(r *raw) { r.respond(field(":status", "200"), field("content-type", "application/grpc")) },
		"long frames": func(r *raw) { r.fr.WriteRawFrame(4, 0, 0, make([]byte, frameSize+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := tcpPair(t)
			defer far.Close()
			c, err := NewCaller(withDeadline(t), near, "http", "t")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r := newRaw(t, far)
			go func() { // it answers once it has got the call: a connection that ends before takes none (ErrNotSent)
				if _, err := io.CopyN(io.Discard, far, int64(len(x.ClientPreface))); err != nil {
					return
				}
				for {
					f, err := r.fr.ReadFrame()
					if err != nil {
						return
					}
					if _, ok := f.(*x.HeadersFrame); ok {
						break
					}
				}
				go io.Copy(io.Discard, far)
				answer(r)
			}()
			if _, err := called(withDeadline(t), c, "/t/echo", []byte("x")); status.Code(err) != codes.Unavailable || IsForeign(err) == (name == "nothing") {
				t.Error(err)
			}
		})
	}
}
