package http2

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/remote/internal/freed/freedtest"
)

var bidi = &grpc.StreamDesc{StreamName: "stream", ClientStreams: true, ServerStreams: true}

// receive reads a message of a stream.
func receive(s *Stream) ([]byte, error) {
	n, err := s.Next()
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(s, b)
	return b, err
}

// echoStream sends every message back, cut into pieces.
func echoStream(_ context.Context, s *Stream) error {
	for {
		b, err := receive(s)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		k := len(b) / 3
		if err := s.Send(b[:k], nil, b[k:]); err != nil {
			return err
		}
		freedtest.Fill(b, []byte{0xEE}) // they belong to the handler again
	}
}

func (s *testServer) open(t testing.TB, path string) *Stream {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr())
	if err != nil {
		t.Fatal(err)
	}
	st, err := Open(withDeadline(t), nc, "http", s.addr(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func sizedMessage(n int) []byte {
	b := make([]byte, n)
	freedtest.Fill(b, alphabet)
	return b
}

func TestStream(t *testing.T) {
	s := newTestServer(t)
	s.streams = echoStream
	st := s.open(t, "/t/stream")
	testStream(t, st)
}

func testStream(t *testing.T, st *Stream) {
	t.Helper()
	for _, n := range []int{0, 1, 4095, copyBelow, copyBelow + 1, 1 << 20, 3*streamQuantum + 5} {
		sent := make(chan error, 1)
		go func() { sent <- st.Send(sizedMessage(n)) }() // large ones are answered before they are complete
		got, err := receive(st)
		if err != nil || !bytes.Equal(got, sizedMessage(n)) {
			t.Fatalf("%d bytes: %d, %v", n, len(got), err)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := st.Send(nil); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if _, err := st.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := st.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestStreamConcurrentSenders(t *testing.T) {
	s := newTestServer(t)
	s.streams = echoStream
	st := s.open(t, "/t/stream")
	const senders, each = 20, 30
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for k := range each {
				b := bytes.Repeat([]byte{byte(i)}, 1+k*k*k*4)
				if err := st.Send(b[:len(b)/2], b[len(b)/2:]); err != nil {
					t.Error(err)
				}
				freedtest.Fill(b, []byte{0xEE})
			}
		})
	}
	for range senders * each {
		b, err := receive(st)
		if err != nil || !bytes.Equal(b, bytes.Repeat(b[:1], len(b))) || b[0] == 0xEE {
			t.Fatalf("%d mixed bytes, %v", len(b), err)
		}
	}
	sending.Wait()
}

// The other end is grpc-go, whose windows are small.
func TestStreamWithOtherClient(t *testing.T) {
	s := newTestServer(t)
	s.streams = func(ctx context.Context, st *Stream) error {
		// A sender of more than a window must read meanwhile.
		in := make(chan []byte, 100)
		go func() {
			defer close(in)
			for {
				b, err := receive(st)
				if err != nil {
					return
				}
				in <- b
			}
		}()
		for b := range in {
			if err := st.Send(b); err != nil {
				return err
			}
		}
		return status.Error(codes.DataLoss, "100%")
	}
	c := s.dial(t, grpc.WithInitialWindowSize(1<<16), grpc.WithInitialConnWindowSize(1<<16))
	st, err := c.NewStream(withDeadline(t), bidi, "/t/stream")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 100, 1 << 20, 5 << 20} {
		if err := st.SendMsg(&message{data: sizedMessage(n)}); err != nil {
			t.Fatal(err)
		}
		m := &message{}
		if err := st.RecvMsg(m); err != nil || !bytes.Equal(m.data, sizedMessage(n)) {
			t.Fatalf("%d bytes, %v", len(m.data), err)
		}
	}
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := st.RecvMsg(&message{}); status.Code(err) != codes.DataLoss || status.Convert(err).Message() != "100%" {
		t.Error(err)
	}
}

func TestStreamWithOtherServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(testCodec{}), grpc.MaxRecvMsgSize(1<<30))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "t", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{StreamName: "stream", ClientStreams: true, ServerStreams: true,
		Handler: func(_ any, st grpc.ServerStream) error {
			for {
				m := &message{}
				if err := st.RecvMsg(m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := st.SendMsg(m); err != nil {
					return err
				}
			}
		}}}}, nil)
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	defer serving.Wait()
	defer server.Stop()
	for _, path := range []string{"/t/stream", "/t/nothing"} {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		st, err := Open(withDeadline(t), nc, "http", "t", path)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if path == "/t/stream" {
			testStream(t, st)
		} else if _, err := st.Next(); status.Code(err) != codes.Unimplemented {
			t.Error(err)
		}
	}
}

func TestStreamOutcome(t *testing.T) {
	s := newTestServer(t)
	s.streams = func(ctx context.Context, st *Stream) error {
		if err := st.Send([]byte("last")); err != nil {
			return err
		}
		return status.Error(codes.FailedPrecondition, "another spec")
	}
	st := s.open(t, "/t/stream")
	if b, err := receive(st); err != nil || string(b) != "last" {
		t.Errorf("%q %v", b, err)
	}
	for range 2 {
		if _, err := st.Next(); status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != "another spec" {
			t.Error(err)
		}
	}
	if _, err := s.open(t, "/t/nothing").Next(); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
}

// Closing ends everything at once, and a blocked Send no longer uses its pieces.
func TestStreamClose(t *testing.T) {
	s := newTestServer(t)
	accepted, release := make(chan *Stream, 1), make(chan struct{})
	s.streams = func(ctx context.Context, st *Stream) error {
		accepted <- st
		<-ctx.Done() // the handler learns of the end without reading
		close(release)
		return ctx.Err()
	}
	st := s.open(t, "/t/stream")
	read := make(chan error, 1)
	go func() { // the other end learns of the stream with this
		_, err := st.Next()
		read <- err
	}()
	far := <-accepted
	sent := make(chan error, 3)
	for range cap(sent) {
		b := sizedMessage(40 << 20)
		go func() {
			err := st.Send(b)
			freedtest.Fill(b, []byte{0xEE}) // a race if Send still uses it
			sent <- err
		}()
	}
	eventually(t, "the sender is stuck", func() bool {
		st.conn.mu.Lock()
		defer st.conn.mu.Unlock()
		return st.conn.busy
	})
	st.Close()
	for range cap(sent) {
		if err := <-sent; status.Code(err) != codes.Unavailable {
			t.Error(err)
		}
	}
	if err := <-read; status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := st.Send(nil); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	far.Close()
	<-release
}

func TestStreamNeedsItsConnection(t *testing.T) {
	s := newTestServer(t)
	s.streams = echoStream
	r := s.dialRaw(t)
	r.call(1, "/t/wait", "")
	<-s.entered
	r.headers(3, "/t/stream")
	if res := r.answer(3); res.status != int(codes.FailedPrecondition) {
		t.Errorf("%+v", res)
	}
	r.must(r.fr.WriteRSTStream(1, x.ErrCodeCancel))
	r = s.dialRaw(t)
	r.headers(1, "/t/stream")
	r.headers(3, "/t/echo")
	if code, _ := r.goneAway(); code != x.ErrCodeRefusedStream {
		t.Error(code)
	}
}

// The server must speak gRPC.
func TestOpenSomethingElse(t *testing.T) {
	for name, answer := range map[string]func(fr *x.Framer, r *raw){
		"nothing":    func(fr *x.Framer, r *raw) { r.nc.Close() },
		"HTTP/1":     func(fr *x.Framer, r *raw) { io.WriteString(r.nc, "HTTP/1.1 400 Bad Request\r\n\r\n"); r.nc.Close() },
		"a web site": func(fr *x.Framer, r *raw) { fr.WriteSettings(); r.respond(field(":status", "404")) },
		"DATA first": func(fr *x.Framer, r *raw) { fr.WriteSettings(); fr.WriteData(1, false, framed([]byte("x"))) },
		"a reset":    func(fr *x.Framer, r *raw) { fr.WriteSettings(); fr.WriteRSTStream(1, x.ErrCodeInternal) },
		"a part": func(fr *x.Framer, r *raw) {
			fr.WriteSettings()
			r.respond(field(":status", "200"), field("content-type", "application/grpc"))
			fr.WriteData(1, true, []byte{0, 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := tcpPair(t)
			r := newRaw(t, far)
			go io.Copy(io.Discard, far)
			go answer(r.fr, r)
			st, err := Open(withDeadline(t), near, "http", "t", "/t/stream")
			if err == nil {
				_, err = st.Next()
				st.Close()
			}
			if status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
		})
	}
	near, far := net.Pipe() // it accepts nothing
	defer far.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, near, "http", "t", "/t/stream"); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
}

func (r *raw) respond(fields ...hpackField) {
	r.buf.Reset()
	for _, f := range fields {
		r.enc.WriteField(f)
	}
	r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: r.buf.Bytes(), EndHeaders: true})
}

func tcpPair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func testTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"t"}, NotAfter: time.Now().Add(time.Hour)}
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
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ServerName: "t"}
}

func TestStreamTLS(t *testing.T) {
	s := newTestServer(t)
	s.streams = echoStream
	near, far := tcpPair(t)
	config := testTLS(t)
	s.Serve(tls.Server(far, config), nil, 1, nil)
	st, err := Open(withDeadline(t), tls.Client(near, config), "https", "t", "/t/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	testStream(t, st)
}

// written counts the writes to a connection without vectored writes, and keeps their bytes.
type written struct {
	net.Conn
	sizes []int
	all   []byte
}

func (w *written) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	w.all = append(w.all, p...)
	return len(p), nil
}

func TestPiecesArePutTogether(t *testing.T) {
	for _, sizes := range [][]int{{1, 2, 3}, {9, 5000, 9, 5000, 9}, {9, 1 << 20, 9, 1 << 20}, {tlsRecord, tlsRecord}, {9, tlsRecord}, {tlsRecord - 1, 1, 1}} {
		var b batch
		var want []byte
		small := 0
		for i, n := range sizes {
			p := bytes.Repeat([]byte{byte(i)}, n)
			b.list = append(b.list, p)
			want = append(want, p...)
		}
		w := &written{}
		if _, err := b.write(w); err != nil || !bytes.Equal(w.all, want) {
			t.Fatalf("%v: %v", sizes, err)
		}
		for _, n := range w.sizes[:len(w.sizes)-1] {
			if n < tlsRecord {
				small++
			}
		}
		if small > 0 {
			t.Errorf("%v: written as %v", sizes, w.sizes)
		}
	}
}

// A handler may return while another goroutine still reads what has arrived. Its read fails, and the connection ends after it.
func TestReaderOutlivesHandler(t *testing.T) {
	s := newTestServer(t)
	failed := make(chan error)
	s.streams = func(_ context.Context, st *Stream) error {
		begun := make(chan struct{})
		go func() {
			_, err := receive(st)
			close(begun)
			for err == nil {
				_, err = receive(st)
			}
			failed <- err
		}()
		<-begun
		return st.Close()
	}
	for range 50 {
		st := s.open(t, "/t/stream")
		go func() { // ends with the connection
			for st.Send([]byte("some")) == nil {
			}
		}()
		select {
		case err := <-failed:
			if status.Code(err) != codes.Unavailable {
				t.Fatal(err)
			}
		case <-time.After(patience):
			t.Fatal("the read goes on after the handler")
		}
	}
}
