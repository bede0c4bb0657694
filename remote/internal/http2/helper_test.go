package http2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/remote/internal/freed/freedtest"
)

func TestMain(m *testing.M) {
	if !playRole() {
		goleak.VerifyTestMain(m)
	}
}

// patience bounds how long a test waits.
const patience = 20 * time.Second

// message is the tests' message: bytes, or counted buffers.
type message struct {
	data []byte
	wire mem.BufferSlice
}

type testCodec struct {
	decoding *atomic.Int64 // requests that are being decoded; nil if nobody asks
}

// slowly is a request that takes minutes to decode, unless its client gives it up. It does not fit into the input buffer.
var slowly = "slowly" + strings.Repeat(".", inputSize)

// slowTime is how long slowly takes to decode.
const slowTime = 5 * (pingIdle + pingAnswer)

func (testCodec) Name() string { return "proto" }

func (testCodec) Marshal(v any) (mem.BufferSlice, error) {
	if err, is := v.(error); is {
		return nil, err
	}
	m := v.(*message)
	if m.wire != nil {
		return m.wire, nil
	}
	return mem.BufferSlice{mem.SliceBuffer(m.data)}, nil
}

func (c testCodec) Unmarshal(b mem.BufferSlice, v any) error {
	return c.UnmarshalUntil(b, v, func() error { return nil })
}

func (c testCodec) UnmarshalUntil(b mem.BufferSlice, v any, ended func() error) error {
	if c.decoding != nil {
		c.decoding.Add(1)
		defer c.decoding.Add(-1)
	}
	v.(*message).data = b.Materialize()
	if string(v.(*message).data) == slowly {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < slowTime; <-tick.C {
			if err := ended(); err != nil {
				return err
			}
		}
	}
	return nil
}

// counted is a pool that tracks which of its buffers are in use, and overwrites those that are returned, so that
// reads of freed buffers are detected.
type counted struct {
	taken, back atomic.Int64
	mu          sync.Mutex
	twice       int
	out         map[*byte]bool
}

func (p *counted) Get(n int) *[]byte {
	b := make([]byte, n)
	p.taken.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil {
		p.out = map[*byte]bool{}
	}
	p.out[&b[0]] = true
	return &b
}

func (p *counted) Put(b *[]byte) {
	freedtest.Fill(*b, []byte{0xEE})
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.out[&(*b)[0]] {
		p.twice++
	}
	delete(p.out, &(*b)[0])
	p.back.Add(1)
}

var alphabet = []byte("abcdefghijklmnopqrstuvwxyz")

// pattern returns n bytes in pieces of the pool.
func (p *counted) pattern(n, piece int) mem.BufferSlice {
	var all mem.BufferSlice
	for n > 0 {
		k := min(n, piece)
		b := p.Get(max(k, 2<<10))
		*b = (*b)[:k]
		freedtest.Fill(*b, alphabet)
		all = append(all, mem.NewBuffer(b, p))
		n -= k
	}
	return all
}

// awaitBack fails the test unless every buffer is returned, once.
func (p *counted) awaitBack(t *testing.T) {
	t.Helper()
	eventually(t, "buffers come back", func() bool { return p.taken.Load() == p.back.Load() })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.twice > 0 {
		t.Errorf("%d buffers were freed twice", p.twice)
	}
}

// eventually polls for a condition that is not signalled.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-tick.C
	}
}

// testServer listens.
type testServer struct {
	*Server
	listener  net.Listener
	accepting sync.WaitGroup
	closed    atomic.Int64 // connections that ended
	decoding  atomic.Int64 // requests that are being decoded, if the codec counts them
	pool      counted
	entered   chan struct{} // of each call of /t/wait
	release   chan struct{} // permits them to answer
	left      chan error    // of each call of /t/count, how its messages went
	streams   func(ctx context.Context, s *Stream) error
	both      func(ctx context.Context, recv, send func(any) error) error
}

func newTestServer(t testing.TB) *testServer {
	t.Helper()
	return newTestServerOn(t, func(l net.Listener) net.Listener { return l })
}

// newTestServerOn is newTestServer for a listener that wraps one of TCP.
func newTestServerOn(t testing.TB, wrap func(net.Listener) net.Listener) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(wrap(l))
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
		if n := s.receiving.total.Load(); n != 0 {
			t.Errorf("%d bytes of requests are still counted", n)
		}
	})
	return s
}

// serveOn serves the connections of a listener until end.
func serveOn(l net.Listener) *testServer {
	s := &testServer{listener: l, entered: make(chan struct{}, 1<<15), release: make(chan struct{}), left: make(chan error, 100)}
	methods := s.methods()
	s.Server = NewServer(Config{Lookup: func(path string) *Method { return methods[path] }, Codec: testCodec{},
		Closed: func(uint64) { s.closed.Add(1) }, Logger: slog.New(slog.DiscardHandler)})
	s.accepting.Go(func() { s.serve(l) })
	return s
}

// serve serves the connections of a listener until it is closed.
func (s *Server) serve(l net.Listener) {
	for n := uint64(1); ; n++ {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.Serve(c, nil, n, nil)
	}
}

// end stops the server.
func (s *testServer) end() error {
	s.listener.Close()
	s.accepting.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.Stop(ctx, patience)
}

func (s *testServer) methods() map[string]*Method {
	echo := func(_ context.Context, read func(any) error) (any, error) {
		m := &message{}
		return m, read(m)
	}
	return map[string]*Method{
		"/t/echo":   {Unary: echo},
		"/t/inline": {Unary: echo, Inline: true},
		"/t/unwritten": {Unary: func(_ context.Context, read func(any) error) (any, error) {
			return "what the codec panics at", read(&message{})
		}, Inline: true},
		"/t/refused": {Unary: func(_ context.Context, read func(any) error) (any, error) {
			return status.Error(codes.ResourceExhausted, "what the codec refuses"), read(&message{})
		}, Inline: true},
		"/t/early": {Unary: func(ctx context.Context, read func(any) error) (any, error) {
			Detach(ctx)
			return echo(ctx, read)
		}, Inline: true},
		"/t/late": {Unary: func(ctx context.Context, read func(any) error) (any, error) {
			m := &message{}
			err := read(m)
			Detach(ctx)
			Detach(ctx)
			return m, err
		}, Inline: true},
		// wait answers when released, or with the error of its context.
		"/t/wait": {Unary: func(ctx context.Context, read func(any) error) (any, error) {
			m := &message{}
			if err := read(m); err != nil {
				return nil, err
			}
			s.entered <- struct{}{}
			select {
			case <-s.release:
				return m, nil
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			}
		}},
		// stubborn answers when released, even if its call has ended.
		"/t/stubborn": {Unary: func(_ context.Context, read func(any) error) (any, error) {
			m := &message{}
			if err := read(m); err != nil {
				return nil, err
			}
			s.entered <- struct{}{}
			<-s.release
			return m, nil
		}},
		// big answers with the number of counted bytes in the request, in pieces of the size in the request.
		"/t/big": {Unary: func(ctx context.Context, read func(any) error) (any, error) {
			m := &message{}
			if err := read(m); err != nil {
				return nil, err
			}
			var n, piece int
			if _, err := fmt.Sscan(string(m.data), &n, &piece); err != nil {
				return nil, err
			}
			return &message{wire: s.pool.pattern(n, piece)}, nil
		}, Inline: true},
		"/t/fail": {Unary: func(ctx context.Context, read func(any) error) (any, error) {
			m := &message{}
			if err := read(m); err != nil {
				return nil, err
			}
			return nil, status.Error(codes.FailedPrecondition, string(m.data))
		}, Inline: true},
		"/t/unread": {Unary: func(context.Context, func(any) error) (any, error) {
			return nil, status.Error(codes.Aborted, "not read")
		}, Inline: true},
		"/t/count":  {ServerStream: s.count},
		"/t/both":   {Bidi: func(ctx context.Context, recv, send func(any) error) error { return s.both(ctx, recv, send) }},
		"/t/stream": {Stream: func(ctx context.Context, st *Stream) error { return s.streams(ctx, st) }},
	}
}

func (s *testServer) addr() string { return s.listener.Addr().String() }

// dial returns grpc-go's client.
func (s *testServer) dial(t testing.TB, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dialAddress(t, s.addr(), options...)
}

func dialAddress(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(testCodec{}), grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30))}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func withDeadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// invoke makes a call with grpc-go's client.
func invoke(ctx context.Context, c *grpc.ClientConn, path string, data []byte) ([]byte, error) {
	reply := &message{}
	err := c.Invoke(ctx, path, &message{data: data}, reply)
	return reply.data, err
}

// raw is a client that can send arbitrary frames.
type raw struct {
	t   testing.TB
	nc  net.Conn
	fr  *x.Framer
	enc *hpack.Encoder
	buf bytes.Buffer
	dec *hpack.Decoder
}

func newRaw(t testing.TB, nc net.Conn) *raw {
	r := &raw{t: t, nc: nc, fr: x.NewFramer(nc, nc), dec: hpack.NewDecoder(4096, nil)}
	r.enc = hpack.NewEncoder(&r.buf)
	r.fr.SetMaxReadFrameSize(largestFrame)
	r.fr.AllowIllegalReads, r.fr.AllowIllegalWrites = true, true
	t.Cleanup(func() { nc.Close() })
	return r
}

// dialRaw connects to the server and greets it.
func (s *testServer) dialRaw(t testing.TB, settings ...x.Setting) *raw {
	t.Helper()
	return s.dialRawFrom(t, "127.0.0.1", settings...)
}

// dialRawFrom dials from an address of the loopback interface. To the server, another address is another client.
func (s *testServer) dialRawFrom(t testing.TB, from string, settings ...x.Setting) *raw {
	t.Helper()
	nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", s.addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	r := newRaw(t, nc)
	_, err = nc.Write([]byte(preface))
	r.must(err)
	r.must(r.fr.WriteSettings(settings...))
	return r
}

func (r *raw) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// block compresses headers.
func (r *raw) block(fields ...hpack.HeaderField) []byte {
	r.buf.Reset()
	for _, f := range fields {
		r.must(r.enc.WriteField(f))
	}
	return bytes.Clone(r.buf.Bytes())
}

// fields compresses a call's headers.
func (r *raw) fields(path string, more ...hpack.HeaderField) []byte {
	return r.block(append([]hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: path},
		{Name: ":authority", Value: "test"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}, more...)...)
}

func (r *raw) headers(id uint32, path string, more ...hpack.HeaderField) {
	r.t.Helper()
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: r.fields(path, more...), EndHeaders: true}))
}

// framed returns a gRPC message.
func framed(data []byte) []byte { return append(appendPrefix(nil, len(data)), data...) }

func (r *raw) call(id uint32, path string, data string) {
	r.t.Helper()
	r.headers(id, path)
	r.must(r.fr.WriteData(id, true, framed([]byte(data))))
}

// large makes a call with a request of n bytes, in frames of 16 KiB.
func (r *raw) large(id uint32, path string, n int) {
	r.t.Helper()
	r.headers(id, path)
	r.rest(id, make([]byte, n))
}

// rest sends the request of a call whose headers were sent, in frames of 16 KiB.
func (r *raw) rest(id uint32, request []byte) {
	r.t.Helper()
	b := framed(request)
	for len(b) > 16<<10 {
		r.must(r.fr.WriteData(id, false, b[:16<<10]))
		b = b[16<<10:]
	}
	r.must(r.fr.WriteData(id, true, b))
}

// result is the outcome of a call.
type result struct {
	status  int // -1 for a reset
	message string
	data    []byte
	code    x.ErrCode // of the reset
}

// answer reads until a call is answered.
func (r *raw) answer(id uint32) result {
	r.t.Helper()
	res := result{status: -1}
	for {
		f, err := r.fr.ReadFrame()
		if err != nil {
			r.t.Fatalf("stream %d: %v", id, err)
		}
		ended := false
		switch f := f.(type) {
		case *x.HeadersFrame:
			fields, err := r.dec.DecodeFull(f.HeaderBlockFragment())
			r.must(err)
			if f.StreamID != id {
				continue
			}
			for _, h := range fields {
				switch h.Name {
				case "grpc-status":
					res.status, err = strconv.Atoi(h.Value)
					r.must(err)
				case "grpc-message":
					res.message = unescape(h.Value)
				}
			}
			ended = f.StreamEnded()
		case *x.DataFrame:
			if f.StreamID == id {
				res.data = append(res.data, f.Data()...)
				ended = f.StreamEnded()
			}
		case *x.RSTStreamFrame:
			if f.StreamID == id {
				res.code = f.ErrCode
				return res
			}
		case *x.GoAwayFrame:
			r.t.Fatalf("GOAWAY %v: %s", f.ErrCode, f.DebugData())
		}
		if ended {
			return res
		}
	}
}

// echoed fails the test unless the answer is data.
func (res result) echoed(t testing.TB, data string) {
	t.Helper()
	if res.status != 0 || !bytes.Equal(res.data, framed([]byte(data))) {
		t.Fatalf("status %d %q, %d bytes", res.status, res.message, len(res.data))
	}
}

// goneAway reads until the connection ends, and returns the code of its GOAWAY.
func (r *raw) goneAway() (x.ErrCode, bool) {
	r.t.Helper()
	code, said := x.ErrCode(0), false
	for {
		f, err := r.fr.ReadFrame()
		if g, ok := f.(*x.GoAwayFrame); ok {
			code, said = g.ErrCode, true
		}
		if err == nil {
			continue
		}
		var e net.Error
		if errors.As(err, &e) && e.Timeout() {
			r.t.Fatal("the server does not end the connection")
		}
		if !errors.Is(err, io.EOF) {
			r.t.Logf("the connection ended with %v", err)
		}
		return code, said
	}
}

// ping waits until the server has handled everything that was sent before.
func (r *raw) ping() {
	r.t.Helper()
	var data [8]byte
	binary.BigEndian.PutUint64(data[:], uint64(time.Now().UnixNano()))
	r.must(r.fr.WritePing(false, data))
	for {
		f, err := r.fr.ReadFrame()
		r.must(err)
		switch f := f.(type) {
		case *x.PingFrame:
			if f.IsAck() && f.Data == data {
				return
			}
		case *x.HeadersFrame:
			_, err := r.dec.DecodeFull(f.HeaderBlockFragment())
			r.must(err)
		case *x.GoAwayFrame:
			r.t.Fatalf("GOAWAY %v: %s", f.ErrCode, f.DebugData())
		}
	}
}

func field(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }

func initialWindow(n uint32) x.Setting { return x.Setting{ID: x.SettingInitialWindowSize, Val: n} }
