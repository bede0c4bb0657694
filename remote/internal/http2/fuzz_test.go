package http2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/remote/internal/freed/freedtest"
)

// script is a connection on which the other end sends some data and then nothing.
type script struct {
	mu     sync.Mutex
	says   []byte
	step   int // bytes returned by one read
	hears  bytes.Buffer
	closed bool
}

func (s *script) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	if len(s.says) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.says[:min(s.step, len(s.says))])
	s.says = s.says[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	return s.hears.Write(p)
}

func (s *script) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (*script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

// wellFormed fails the test unless the output consists of frames with headers that can be decoded.
func wellFormed(t *testing.T, b []byte) {
	t.Helper()
	fr := x.NewFramer(nil, bytes.NewReader(b))
	fr.SetMaxReadFrameSize(largestFrame)
	dec := hpack.NewDecoder(4096, nil)
	for {
		f, err := fr.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the connection may end within a batch
			return
		}
		if err != nil {
			t.Fatalf("a malformed frame: %v", err)
		}
		if h, ok := f.(*x.HeadersFrame); ok {
			if _, err := dec.DecodeFull(h.HeaderBlockFragment()); err != nil {
				t.Fatalf("malformed headers: %v", err)
			}
		}
	}
}

// conversation returns data of a client, as a seed.
func conversation(says func(fr *x.Framer, fields func(path string, more ...hpackField) []byte)) []byte {
	var b, block bytes.Buffer
	b.WriteString(preface)
	fr := x.NewFramer(&b, nil)
	fr.AllowIllegalWrites = true
	enc := hpack.NewEncoder(&block)
	says(fr, func(path string, more ...hpackField) []byte {
		block.Reset()
		for _, f := range append([]hpackField{field(":method", "POST"), field(":scheme", "http"), field(":path", path), field("content-type", "application/grpc")}, more...) {
			enc.WriteField(f)
		}
		return bytes.Clone(block.Bytes())
	})
	return b.Bytes()
}

func FuzzServerConn(f *testing.F) {
	type fields = func(path string, more ...hpackField) []byte
	for _, path := range []string{"/t/echo", "/t/inline", "/t/late", "/t/early", "/t/big", "/t/fail", "/t/wait", "/t/stream", "/t/unread", "/t/none", "/t/count", "/t/both"} {
		for step := range 3 {
			f.Add(conversation(func(fr *x.Framer, of fields) {
				fr.WriteSettings(initialWindow(20))
				fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: of(path, field("grpc-timeout", "1S")), EndHeaders: true})
				fr.WriteData(1, step == 0, framed([]byte("hello")))
				fr.WriteHeaders(x.HeadersFrameParam{StreamID: 3, BlockFragment: of(path), PadLength: 3})
				fr.WriteContinuation(3, true, nil)
				fr.WriteDataPadded(3, false, []byte{0, 0, 1}, make([]byte, 9))
				fr.WriteSettings(initialWindow(3), x.Setting{ID: x.SettingHeaderTableSize, Val: 10}, x.Setting{ID: x.SettingMaxFrameSize, Val: 1 << 20})
				fr.WriteWindowUpdate(1, 1<<20)
				fr.WriteWindowUpdate(0, 1<<20)
				if step == 1 {
					fr.WriteRSTStream(1, x.ErrCodeCancel)
				}
				fr.WriteData(3, true, append([]byte{0, 0}, make([]byte, 300)...))
				fr.WritePing(step == 2, [8]byte{})
				fr.WriteGoAway(3, 0, []byte("bye"))
			}), byte(step*step*7))
		}
	}
	s := &testServer{}
	methods := s.methods()
	methods["/t/big"] = &Method{Unary: func(_ context.Context, read func(any) error) (any, error) {
		return &message{wire: s.pool.pattern(100_000, 7000)}, read(&message{})
	}, Inline: true}
	methods["/t/wait"] = &Method{Unary: func(ctx context.Context, read func(any) error) (any, error) {
		err := read(&message{})
		<-ctx.Done()
		return &message{wire: s.pool.pattern(5000, 5000)}, err
	}}
	methods["/t/count"] = &Method{ServerStream: func(_ context.Context, read func(any) error, send func(any) error) error {
		err := read(&message{})
		for err == nil {
			err = send(&message{wire: s.pool.pattern(5000, 700)})
		}
		return err
	}}
	s.both = echoBoth
	s.streams = func(_ context.Context, st *Stream) error {
		var sending sync.WaitGroup
		defer sending.Wait()
		for {
			b, err := receive(st)
			if err != nil {
				st.Close()
				return err
			}
			sending.Go(func() { _ = st.Send(b) }) // it fails where the script ends
		}
	}
	closed := make(chan uint64, 1)
	s.Server = NewServer(Config{Lookup: func(path string) *Method { return methods[path] }, Codec: testCodec{},
		Closed: func(n uint64) { closed <- n }, Logger: slog.New(slog.DiscardHandler)})
	s.receiving.limit, s.maxUnsent = 4<<20, 1<<20
	f.Cleanup(func() {
		if err := s.Stop(context.Background(), patience); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, says []byte, step byte) {
		nc := &script{says: says, step: 1 + int(step)*int(step)}
		s.Serve(nc, nil, 1, nil)
		<-closed
		eventually(t, "everything is let go", func() bool { return s.receiving.total.Load() == 0 && s.pool.taken.Load() == s.pool.back.Load() })
		nc.mu.Lock()
		defer nc.mu.Unlock()
		wellFormed(t, nc.hears.Bytes())
	})
}

func FuzzStream(f *testing.F) {
	type fields = func(path string, more ...hpackField) []byte
	for step := range 4 {
		f.Add(conversation(func(fr *x.Framer, of fields) {
			fr.WriteSettings(initialWindow(uint32(step * step * step * 100)))
			fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: of("", field(":status", "200")), EndHeaders: true})
			fr.WriteData(1, false, framed([]byte("hello")))
			fr.WriteDataPadded(1, false, framed(make([]byte, 1000))[:step*100], make([]byte, 10))
			fr.WriteWindowUpdate(1, 100000)
			fr.WritePing(false, [8]byte{})
			if step == 2 {
				fr.WriteRSTStream(1, x.ErrCodeCancel)
			}
			if step == 3 {
				fr.WriteData(1, true, nil)
			}
			fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: of("", field("grpc-status", "9"), field("grpc-message", "%41")), EndHeaders: step > 0, EndStream: true})
			fr.WriteContinuation(1, true, nil)
		})[len(preface):], byte(step*30))
	}
	f.Fuzz(func(t *testing.T, says []byte, step byte) {
		nc := &script{says: says, step: 1 + int(step)*int(step)}
		total := len(says)
		st, err := Open(context.Background(), nc, "http", "t", "/t/stream")
		if err != nil {
			return
		}
		var sending sync.WaitGroup
		for _, n := range []int{1, 100, copyBelow * 2} {
			sending.Go(func() {
				b := make([]byte, n)
				_ = st.Send(b[:n/2], b[n/2:]) // it fails where the script ends
				freedtest.Fill(b, []byte{1})
			})
		}
		got := 0
		var waste [777]byte
		for err == nil {
			var n int
			if n, err = st.Next(); err != nil || n%3 == 0 { // skipped
				continue
			}
			for err == nil {
				n, err = st.Read(waste[:])
				got += n
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
		}
		st.Close()
		sending.Wait()
		if got > total {
			t.Fatalf("%d bytes out of %d", got, total)
		}
		wellFormed(t, nc.hears.Bytes()[len(preface):])
	})
}

func FuzzHeaders(f *testing.F) {
	for _, s := range []string{"", "plain", "100%", "%41%4", "ärger\n\x00", "%zz", "1S", "99999999H", "12345678n", "1", "S", "-1S", "+1S", "1 S", "0m"} {
		f.Add(s, uint32(len(s)))
	}
	f.Fuzz(func(t *testing.T, s string, code uint32) {
		e := escape(s)
		if strings.ContainsFunc(e, func(r rune) bool { return r < ' ' || r > '~' }) || unescape(e) != s {
			t.Fatalf("%q as %q is %q", s, e, unescape(e))
		}
		if u := unescape(s); len(u) > len(s) {
			t.Fatalf("%q is %q", s, u)
		}
		if d, ok := parseTimeout(s); ok && (d < 0 || len(s) < 2 || len(s) > 9) {
			t.Fatalf("%q is %v", s, d)
		}
		want := status.Error(codes.Code(code), s)
		var got headerFields
		for _, h := range trailer(want) {
			got.add(&h)
		}
		if err := got.outcome(); status.Code(err) != status.Code(want) || want != nil && status.Convert(err).Message() != s {
			t.Fatalf("%v became %v", want, err)
		}
		got = headerFields{grpcStatus: s, message: s}
		_ = got.outcome()
	})
}
