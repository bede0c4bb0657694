package port

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	troupe "github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/http2/http2test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.DiscardHandler)

func listenTest(t *testing.T, c Config) *Port {
	t.Helper()
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	c.Logger = silent
	p, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopTest(t, p) })
	return p
}

func stopTest(t *testing.T, p *Port) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func dialTest(t *testing.T, from *Port, address string) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if from.config.Credentials != nil {
		creds = credentials.NewTLS(from.config.Credentials.Client("127.0.0.1:1"))
	}
	c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// panicky is a service that panics.
var panicky = http2.Service{Name: "test.Panicky", Methods: map[string]http2.Handler{"Unary": func(context.Context, func(any) error) (any, error) { panic("unary") }}}

// hello is a stream that sends a message, and then waits for its end.
func hello(ctx context.Context, s *http2.Stream) error {
	if err := s.Send([]byte("hello")); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// openHello opens a hello stream.
func openHello(t *testing.T, from, to *Port) *http2.Stream {
	t.Helper()
	s, err := from.OpenStream(deadline(t), to.Addr(), "/test.Stream/Hello")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if n, err := s.Next(); n != len("hello") || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	return s
}

func TestServicesAndStreamsShareThePort(t *testing.T) {
	a, b := listenTest(t, Config{}), listenTest(t, Config{})
	b.Services().Register(http2test.Describe(&healthpb.Health_ServiceDesc, health.NewServer()))
	b.Services().HandleStream("/test.Stream/Hello", hello)
	b.Services().Open()
	client := healthpb.NewHealthClient(dialTest(t, a, b.Addr()))
	if r, err := client.Check(deadline(t), &healthpb.HealthCheckRequest{}); err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("unary: %v %v", r, err)
	}
	openHello(t, a, b)
}

// Messages to another address go to the actor.Process that Resolve returns, and are dead letters if there is none.
func TestActorsOfOtherAddresses(t *testing.T) {
	here := make(elsewhere, 1)
	p := listenTest(t, Config{Resolve: func(pid *actor.PID) (actor.Process, bool) { return here, pid.Address == "known:1" }})
	if p.System().Address() != p.Addr() {
		t.Errorf("the actors' address is %s, the port's %s", p.System().Address(), p.Addr())
	}
	p.System().Root.Send(actor.NewPID("known:1", "x"), wrapperspb.String("hi"))
	if m := (<-here).(*wrapperspb.StringValue); m.Value != "hi" {
		t.Error(m)
	}
	if _, err := p.System().Root.RequestFuture(actor.NewPID("unknown:1", "x"), wrapperspb.String("hi"), 5*time.Second).Result(); !errors.Is(err, actor.ErrDeadLetter) {
		t.Error(err)
	}
}

// elsewhere is the actor.Process of another address.
type elsewhere chan any

func (e elsewhere) SendUserMessage(_ *actor.PID, m any) { e <- actor.UnwrapEnvelopeMessage(m) }
func (e elsewhere) SendSystemMessage(*actor.PID, any)   {}
func (e elsewhere) Stop(*actor.PID)                     {}

func TestPanicsAreErrors(t *testing.T) {
	a, b := listenTest(t, Config{}), listenTest(t, Config{})
	b.Services().Register(panicky)
	b.Services().HandleStream("/test.Panicky/Stream", func(context.Context, *http2.Stream) error { panic("stream") })
	b.Services().Open()
	c := dialTest(t, a, b.Addr())
	for method, want := range map[string]codes.Code{
		"/test.Panicky/Unary":  codes.Internal,
		"/test.Panicky/Stream": codes.Internal,
		"/test.Panicky/None":   codes.Unimplemented,
		"/test.None/None":      codes.Unimplemented,
	} {
		err := c.Invoke(deadline(t), method, wrapperspb.String(""), wrapperspb.String(""))
		if status.Code(err) != want {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// A panic fails only its call, wherever it happens: the client's connection continues.
func TestPanicsOfInlineCalls(t *testing.T) {
	a, b := listenTest(t, Config{}), listenTest(t, Config{})
	b.Services().Register(http2.Service{Name: "test.Inline", Methods: map[string]http2.Handler{
		"Call": func(ctx context.Context, read func(any) error) (any, error) {
			m := &raw{}
			if err := read(m); err != nil {
				return nil, err
			}
			switch string(m.data) {
			case "raw:inline":
				panic("inline")
			case "raw:detached":
				Detach(ctx)
				panic("detached")
			}
			return m, nil
		}}})
	const path = "/test.Inline/Call"
	b.Services().Inline(path)
	b.Services().Open()
	c := dialTest(t, a, b.Addr())
	for _, what := range []string{"inline", "detached", "inline"} {
		if err := c.Invoke(deadline(t), path, &raw{[]byte(what)}, &raw{}); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", what, err)
		}
		reply := &raw{}
		if err := c.Invoke(deadline(t), path, &raw{[]byte("x")}, reply); err != nil || string(reply.data) != "raw:raw:x" {
			t.Errorf("after %s: %q %v", what, reply.data, err)
		}
	}
}

func TestEarlyCallsWaitForTheStart(t *testing.T) {
	a, b := listenTest(t, Config{}), listenTest(t, Config{})
	client := healthpb.NewHealthClient(dialTest(t, a, b.Addr()))
	got := make(chan error, 1)
	go func() {
		_, err := client.Check(deadline(t), &healthpb.HealthCheckRequest{})
		got <- err
	}()
	b.Services().Register(http2test.Describe(&healthpb.Health_ServiceDesc, health.NewServer()))
	b.Services().Open()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// Calls of a method with many answers wait for the start, too. One that came before the method was added has to be repeated.
func TestServerStreams(t *testing.T) {
	a, b := listenTest(t, Config{}), listenTest(t, Config{})
	const path = "/t/twice"
	conn := dialTest(t, a, b.Addr())
	early := b.Services().lookup(path)
	b.Services().HandleServerStream(path, func(_ context.Context, read, send func(any) error) error {
		var q healthpb.HealthCheckRequest
		err := read(&q)
		for range 2 {
			err = errors.Join(err, send(&q))
		}
		if err == nil {
			panic("at the end of " + q.Service)
		}
		return err
	})
	waiting, err := conn.NewStream(deadline(t), &grpc.StreamDesc{ServerStreams: true}, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(waiting.SendMsg(&healthpb.HealthCheckRequest{Service: "x"}), waiting.CloseSend()); err != nil {
		t.Fatal(err)
	}
	b.Services().Open()
	for range 2 {
		var m healthpb.HealthCheckRequest
		if err := waiting.RecvMsg(&m); err != nil || m.Service != "x" {
			t.Errorf("%v, %v", m.Service, err)
		}
	}
	if err := waiting.RecvMsg(&healthpb.HealthCheckRequest{}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "at the end of x") {
		t.Errorf("after a panic: %v", err)
	}
	if _, err := early.Unary(deadline(t), nil); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "has just started, and serves "+path+" from now on") {
		t.Errorf("the early call: %v", err)
	}
}

// Calls with messages in both directions wait for the start, and share an encrypted connection with others.
func TestBidis(t *testing.T) {
	config := testTLS(t)
	for _, p := range []*Port{listenTest(t, Config{}), listenTest(t, Config{Credentials: config})} {
		const path = "/t/echo"
		p.Services().Register(http2test.Describe(&healthpb.Health_ServiceDesc, health.NewServer()))
		p.Services().HandleBidi(path, func(_ context.Context, recv, send func(any) error) error {
			for {
				var m healthpb.HealthCheckRequest
				if err := recv(&m); errors.Is(err, io.EOF) {
					panic("at the end")
				} else if err != nil {
					return err
				}
				if err := send(&m); err != nil {
					return err
				}
			}
		})
		conn := dialTest(t, p, p.Addr())
		st, err := conn.NewStream(deadline(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			m, name := &healthpb.HealthCheckRequest{}, strconv.Itoa(i)
			if err := st.SendMsg(&healthpb.HealthCheckRequest{Service: name}); err != nil {
				t.Fatal(err)
			}
			p.Services().Open()
			if err := st.RecvMsg(m); err != nil || m.Service != name {
				t.Errorf("%v, %v", m.Service, err)
			}
			if _, err := healthpb.NewHealthClient(conn).Check(deadline(t), &healthpb.HealthCheckRequest{}); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(st.CloseSend(), st.RecvMsg(&healthpb.HealthCheckRequest{})); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "at the end") {
			t.Errorf("after a panic: %v", err)
		}
	}
}

func TestTakenPort(t *testing.T) {
	a := listenTest(t, Config{})
	_, err := Listen(Config{Address: a.Addr(), Logger: silent, Holder: func(_ context.Context, address string) string { return "the server of " + address }})
	if troupe.CodeOf(err) != troupe.FailedPrecondition || !strings.Contains(err.Error(), "is taken. It is held by the server of "+a.Addr()) ||
		!strings.Contains(err.Error(), "another port in the cluster spec") {
		t.Errorf("taken by a port: %v", err)
	}
	// Only TCP is in use: the UDP socket that was bound first must be released.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := Listen(Config{Address: l.Addr().String(), Logger: silent}); troupe.CodeOf(err) != troupe.FailedPrecondition {
			t.Errorf("taken by TCP: %v", err)
		}
	}
	l.Close()
	p := listenTest(t, Config{Address: l.Addr().String()})
	stopTest(t, p)
	// A stopped port can be bound again at once.
	listenTest(t, Config{Address: p.Addr()})
}

func TestBadAddresses(t *testing.T) {
	for address, code := range map[string]troupe.Code{"x": troupe.InvalidArgument, "host.invalid:1": troupe.InvalidArgument, "192.0.2.1:7000": troupe.FailedPrecondition} {
		if _, err := Listen(Config{Address: address, Logger: silent}); troupe.CodeOf(err) != code || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAddressIsAsDeclared(t *testing.T) {
	p := listenTest(t, Config{Address: "localhost:0"})
	if !strings.HasPrefix(p.Addr(), "localhost:") || strings.HasSuffix(p.Addr(), ":0") || p.System().Address() != p.Addr() {
		t.Errorf("address %s, of the system %s", p.Addr(), p.System().Address())
	}
	if !p.Packets().LocalAddr().(*net.UDPAddr).IP.IsLoopback() {
		t.Errorf("UDP at %v", p.Packets().LocalAddr())
	}
}

func testGossip(t *testing.T, a, b *Port) {
	t.Helper()
	c, err := a.DialStream(b.Addr(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{0xf4, 1, 2}); err != nil {
		t.Fatal(err)
	}
	var s net.Conn
	select {
	case s = <-b.Streams():
	case <-deadline(t).Done():
		t.Fatal("no stream arrived")
	}
	defer s.Close()
	got := make([]byte, 3)
	if _, err := io.ReadFull(s, got); err != nil || got[0] != 0xf4 || got[2] != 2 {
		t.Errorf("read %v %v", got, err)
	}
	// The deadline that gRPC set for the handshake must not end the stream, nor must it clear ours.
	if err := s.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read past the deadline: %v", err)
	}
	if _, err := a.Packets().WriteTo([]byte("hi"), b.Packets().LocalAddr()); err != nil {
		t.Fatal(err)
	}
	b.Packets().SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, _, err := b.Packets().ReadFrom(got); err != nil || string(got[:n]) != "hi" {
		t.Errorf("packet %q %v", got[:n], err)
	}
}

func TestGossipSharesThePort(t *testing.T) {
	a, b := listenTest(t, Config{}), listenTest(t, Config{})
	testGossip(t, a, b)
}

func TestTLS(t *testing.T) {
	config := testTLS(t)
	a, b := listenTest(t, Config{Credentials: config}), listenTest(t, Config{Credentials: config})
	testGossip(t, a, b)
	b.Services().Register(http2test.Describe(&healthpb.Health_ServiceDesc, health.NewServer()))
	b.Services().HandleStream("/test.Stream/Hello", hello)
	b.Services().Open()
	if _, err := healthpb.NewHealthClient(dialTest(t, a, b.Addr())).Check(deadline(t), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("unary: %v", err)
	}
	openHello(t, a, b)
	plain := listenTest(t, Config{})
	err := dialTest(t, plain, b.Addr()).Invoke(deadline(t), "/x/y", wrapperspb.String(""), wrapperspb.String(""))
	if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "troupe proxy --target "+b.Addr()) {
		t.Errorf("a plain call to a port with TLS: %v", err)
	}
}

// fixed are credentials that do not change, and permit gossip to every peer that they accept.
type fixed struct{ *tls.Config }

func (f fixed) Server(protocols ...string) *tls.Config {
	c := f.Clone()
	c.NextProtos = protocols
	return c
}

func (f fixed) Client(_ string, protocols ...string) *tls.Config { return f.Server(protocols...) }

func (fixed) Gossips(tls.ConnectionState) error { return nil }

func (fixed) Watch(io.Closer, tls.ConnectionState) (func(), error) { return func() {}, nil }

func testTLS(t *testing.T) fixed {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "troupe"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return fixed{&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}}
}

// A graceful stop waits for the running call's answer, even with streams that never end.
func TestStopWaitsForCallsAndEndsStreams(t *testing.T) {
	a := listenTest(t, Config{})
	b, err := Listen(Config{Address: "127.0.0.1:0", Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	entered, answer := make(chan struct{}), make(chan struct{})
	b.Services().Register(http2.Service{Name: "test.Slow", Methods: map[string]http2.Handler{
		"Call": func(_ context.Context, read func(any) error) (any, error) {
			if err := read(&wrapperspb.StringValue{}); err != nil {
				return nil, err
			}
			close(entered)
			<-answer
			return wrapperspb.String("late"), nil
		}}})
	b.Services().Register(http2test.Describe(&healthpb.Health_ServiceDesc, health.NewServer()))
	b.Services().Open()
	c := dialTest(t, a, b.Addr())
	b.Services().HandleStream("/test.Stream/Hello", hello)
	watch := openHello(t, a, b)
	got := make(chan error, 1)
	go func() {
		reply := &wrapperspb.StringValue{}
		got <- c.Invoke(deadline(t), "/test.Slow/Call", wrapperspb.String(""), reply)
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- b.Stop(deadline(t)) }()
	for { // until Stop refuses calls
		err := dialTest(t, a, b.Addr()).Invoke(deadline(t), "/grpc.health.v1.Health/Check", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{})
		if status.Code(err) == codes.Unavailable {
			break
		}
	}
	close(answer)
	if err := <-got; err != nil {
		t.Errorf("the running call: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := watch.Next(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream: %v", err)
	}
}

// A peer that connects and then sends nothing must not delay a stop for long.
func TestStopWithPeersThatSayNothing(t *testing.T) {
	p, err := Listen(Config{Address: "127.0.0.1:0", Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	p.Services().Open()
	caller, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	if _, err := caller.Write([]byte("PRI * HTTP/2.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	quiet, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	began := time.Now()
	if err := p.Stop(deadline(t)); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 4*time.Second {
		t.Errorf("the stop took %v", d)
	}
}

// raw is a message that encodes and decodes itself.
type raw struct{ data []byte }

func (r *raw) MarshalWire() (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer("raw:"), mem.SliceBuffer(r.data)}, nil
}

func (r *raw) UnmarshalWire(data mem.BufferSlice, _ func() error) error {
	r.data = data.Materialize()
	return nil
}

func TestMessagesWithWireCodeOfTheirOwn(t *testing.T) {
	a, b := listenTest(t, Config{}), listenTest(t, Config{})
	b.Services().Register(http2.Service{Name: "test.Raw", Methods: map[string]http2.Handler{
		"Call": func(_ context.Context, read func(any) error) (any, error) {
			m := &raw{}
			return m, read(m)
		}}})
	b.Services().Open()
	reply := &raw{}
	if err := dialTest(t, a, b.Addr()).Invoke(deadline(t), "/test.Raw/Call", &raw{[]byte("x")}, reply); err != nil || string(reply.data) != "raw:raw:x" {
		t.Errorf("%q %v", reply.data, err)
	}
}

// TestExpectedMethods calls methods of each shape before they are added.
func TestExpectedMethods(t *testing.T) {
	a := listenTest(t, Config{})
	expected := map[string]Shape{"/t/stream": Stream, "/t/server": ServerStream, "/t/bidi": Bidi, "/t/never": Bidi}
	b := listenTest(t, Config{Expects: expected})
	got := b.Services().Shapes()
	delete(got, "/grpc.health.v1.Health/Watch") // it is there from the beginning
	if !maps.Equal(got, expected) {
		t.Errorf("it expects %v", got)
	}
	conn := dialTest(t, a, b.Addr())
	call := func(path string) grpc.ClientStream {
		c, err := conn.NewStream(deadline(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.SendMsg(wrapperspb.String("x")), c.CloseSend()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	server, bidi, never := call("/t/server"), call("/t/bidi"), call("/t/never")
	opened := make(chan error, 1)
	go func() {
		s, err := a.OpenStream(deadline(t), b.Addr(), "/t/stream")
		if err == nil {
			if _, end := s.Next(); !errors.Is(end, io.EOF) {
				err = end
			}
			err = errors.Join(err, s.Close())
		}
		opened <- err
	}()
	echo := func(recv, send func(any) error) error {
		var m wrapperspb.StringValue
		return errors.Join(recv(&m), send(&m))
	}
	services := b.Services()
	services.HandleStream("/t/stream", func(context.Context, *http2.Stream) error { return nil })
	services.HandleServerStream("/t/server", func(_ context.Context, read, send func(any) error) error { return echo(read, send) })
	services.HandleBidi("/t/bidi", func(_ context.Context, recv, send func(any) error) error { return echo(recv, send) })
	services.Open()
	for path, c := range map[string]grpc.ClientStream{"/t/server": server, "/t/bidi": bidi} {
		var m wrapperspb.StringValue
		if err := c.RecvMsg(&m); err != nil || m.Value != "x" {
			t.Errorf("%s: %q, %v", path, m.Value, err)
		}
	}
	if err := never.RecvMsg(&wrapperspb.StringValue{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that never came: %v", err)
	}
	if err := <-opened; err != nil {
		t.Errorf("a stream: %v", err)
	}
}
