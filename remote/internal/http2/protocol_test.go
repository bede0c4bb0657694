package http2

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
	"testing"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

func TestFramesInParts(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	block := r.fields("/t/echo", field("long", strings.Repeat("x", 30000)))
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, PadLength: 9, Priority: x.PriorityParam{Weight: 3, StreamDep: 5}}))
	r.must(r.fr.WriteContinuation(1, false, block[:16000]))
	r.must(r.fr.WriteContinuation(1, false, nil))
	r.must(r.fr.WriteContinuation(1, true, block[16000:]))
	data := bytes.Repeat([]byte("0123456789"), 10000)
	for b := framed(data); len(b) > 0; {
		n := min(len(b), 3, 1+len(b)%7)
		if len(b) < 90000 {
			n = min(len(b), 20000)
		}
		r.must(r.fr.WriteDataPadded(1, false, b[:n], make([]byte, n%256)))
		b = b[n:]
	}
	r.must(r.fr.WriteRawFrame(0xfb, 7, 99, []byte("unknown")))
	r.must(r.fr.WritePriority(77, x.PriorityParam{}))
	r.must(r.fr.WriteData(1, true, nil)) // as clients half-close
	// The answer is beyond the client's window, in frames of 16 KiB.
	r.must(r.fr.WriteWindowUpdate(0, 1<<20))
	r.must(r.fr.WriteWindowUpdate(1, 1<<20))
	r.answer(1).echoed(t, string(data))
	r.call(3, "/t/inline", "x")
	r.answer(3).echoed(t, "x")
}

// Settings change the windows of waiting answers, even to negative values.
func TestWindowsChange(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t, initialWindow(7))
	r.must(r.fr.WriteWindowUpdate(0, 1<<20))
	r.call(1, "/t/big", "100 10")
	r.ping() // 7 bytes were received
	r.must(r.fr.WriteSettings(initialWindow(3)))
	r.must(r.fr.WriteWindowUpdate(1, 4))
	r.ping() // the window was -4 and is now 0
	s.check(t, func(c *serverConn) error {
		if st := c.streams[1]; st == nil || st.window != 0 || st.left != 98 || c.unsent != 98 {
			return fmt.Errorf("%+v", st)
		}
		return nil
	})
	r.must(r.fr.WriteSettings(initialWindow(0), initialWindow(1<<20)))
	if res := r.answer(1); res.status != 0 || len(res.data) != 98 {
		t.Errorf("status %d, %d bytes after the settings", res.status, len(res.data))
	}
	s.pool.awaitBack(t)
}

// check looks at the only connection.
func (s *testServer) check(t *testing.T, holds func(*serverConn) error) {
	t.Helper()
	for _, c := range s.all() {
		c.mu.Lock()
		err := holds(c)
		c.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestHeaderTable(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t, x.Setting{ID: x.SettingHeaderTableSize, Val: 0})
	id := uint32(1)
	for _, size := range []uint32{0, 4096, 64, 0, 1 << 20, 128} {
		r.dec.SetAllowedMaxDynamicTableSize(4096)
		r.must(r.fr.WriteSettings(x.Setting{ID: x.SettingHeaderTableSize, Val: size}))
		r.enc.SetMaxDynamicTableSize(min(size, 4096))
		for range 3 {
			r.call(id, "/t/echo", "x")
			r.answer(id).echoed(t, "x")
			r.call(id+2, "/t/fail", "x")
			if res := r.answer(id + 2); res.status != int(codes.FailedPrecondition) {
				t.Errorf("%+v", res)
			}
			id += 4
		}
	}
}

func TestResets(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	// Before the request, in the middle of it, while its handler runs, while its answer is being sent, and after it.
	r.headers(1, "/t/echo")
	r.must(r.fr.WriteRSTStream(1, x.ErrCodeCancel))
	r.headers(3, "/t/echo")
	r.must(r.fr.WriteData(3, false, framed(make([]byte, 100000))[:9000]))
	r.must(r.fr.WriteRSTStream(3, x.ErrCodeCancel))
	r.must(r.fr.WriteData(3, true, make([]byte, 100)))
	r.call(5, "/t/wait", "")
	<-s.entered
	r.must(r.fr.WriteRSTStream(5, x.ErrCodeCancel))
	r.call(7, "/t/big", "1000000 10000")
	r.ping()
	r.must(r.fr.WriteRSTStream(7, x.ErrCodeCancel))
	r.must(r.fr.WriteRSTStream(7, x.ErrCodeCancel))
	r.must(r.fr.WriteWindowUpdate(7, 10))
	s.pool.awaitBack(t)
	r.must(r.fr.WriteWindowUpdate(0, 1<<20))
	r.call(9, "/t/inline", "x")
	r.answer(9).echoed(t, "x")
	r.must(r.fr.WriteRSTStream(9, x.ErrCodeCancel))
	r.call(11, "/t/inline", "x")
	r.answer(11).echoed(t, "x")
	s.check(t, func(c *serverConn) error {
		if len(c.streams) > 0 || c.unsent != 0 {
			return fmt.Errorf("%d streams, %d bytes", len(c.streams), c.unsent)
		}
		return nil
	})
}

// A reset in the middle of an answer that is being written frees nothing too early.
func TestResetWhileWriting(t *testing.T) {
	s := newTestServer(t)
	for i := range 5 {
		r := s.dialRaw(t, initialWindow(maxWindow), x.Setting{ID: x.SettingMaxFrameSize, Val: 1 << 18})
		r.must(r.fr.WriteWindowUpdate(0, 1<<30))
		r.call(1, "/t/big", fmt.Sprintf("%d %d", 30<<20, 5<<20+i))
		r.call(3, "/t/big", fmt.Sprintf("%d %d", 6<<20, 26<<15))
		eventually(t, "the answer is stuck", s.stuck)
		r.must(r.fr.WriteRSTStream(1, x.ErrCodeCancel))
		var frames int
		for over := false; !over; {
			f, err := r.fr.ReadFrame()
			r.must(err)
			switch f := f.(type) {
			case *x.DataFrame:
				if bytes.IndexByte(f.Data(), 0xEE) >= 0 {
					t.Fatal("a buffer was sent that had been let go")
				}
				frames++
			case *x.HeadersFrame:
				_, err := r.dec.DecodeFull(f.HeaderBlockFragment())
				r.must(err)
				over = f.StreamEnded() && f.StreamID == 3
			}
		}
		r.nc.Close()
		if frames == 0 {
			t.Error("nothing came")
		}
	}
	s.pool.awaitBack(t)
}

// A connection that breaks in the middle of answers frees everything.
func TestBreakWhileWriting(t *testing.T) {
	s := newTestServer(t)
	for range 5 {
		r := s.dialRaw(t, initialWindow(1<<20))
		r.must(r.fr.WriteWindowUpdate(0, 1<<30))
		for id := uint32(1); id < 20; id += 2 {
			r.call(id, "/t/big", fmt.Sprintf("%d %d", 3<<20, 100000))
		}
		eventually(t, "the answer is stuck", s.stuck)
		r.nc.Close()
		eventually(t, "the connection ends", func() bool { return len(s.all()) == 0 })
	}
	s.pool.awaitBack(t)
}

func TestMalformedCalls(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	deflated := func(wrap func(io.Writer) io.WriteCloser, data []byte) []byte {
		var b bytes.Buffer
		w := wrap(&b)
		w.Write(data)
		w.Close()
		return b.Bytes()
	}
	gz := deflated(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, []byte("hello"))
	zl := deflated(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }, []byte("hello"))
	compressed := func(data []byte) []byte {
		b := framed(data)
		b[0] = 1
		return b
	}
	id := uint32(1)
	for _, c := range []struct {
		name, encoding string
		body           []byte
		want           codes.Code
	}{
		{"nothing", "", nil, codes.Internal},
		{"a part of a prefix", "", []byte{0, 0}, codes.Internal},
		{"a part", "", framed(make([]byte, 100000))[:70000], codes.Internal},
		{"two requests", "", append(framed([]byte("a")), framed([]byte("b"))...), codes.Internal},
		{"two large requests", "", append(framed(make([]byte, 200000)), 1), codes.Internal},
		{"4 GiB", "", []byte{0, 0xff, 0xff, 0xff, 0xff, 1}, codes.ResourceExhausted},
		{"gzip", "gzip", compressed(gz), codes.OK},
		{"zlib", "deflate", compressed(zl), codes.OK},
		{"a part of gzip", "gzip", compressed(gz[:len(gz)-9]), codes.Internal},
		{"no gzip", "gzip", compressed([]byte("hello")), codes.Internal},
		{"snappy", "snappy", compressed(gz), codes.Unimplemented},
	} {
		r.headers(id, "/t/echo", field("grpc-encoding", c.encoding))
		for len(c.body) > 16<<10 {
			r.must(r.fr.WriteData(id, false, c.body[:16<<10]))
			c.body = c.body[16<<10:]
		}
		r.must(r.fr.WriteData(id, true, c.body))
		res := r.answer(id)
		if res.status != int(c.want) {
			t.Errorf("%s: status %d %q", c.name, res.status, res.message)
		}
		if c.want == codes.OK {
			res.echoed(t, "hello")
		}
		id += 2
	}
	if n := s.receiving.total.Load(); n != 0 {
		t.Errorf("%d bytes of requests are still counted", n)
	}
	// Trailers instead of a request, and headers only.
	r.headers(id, "/t/echo")
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: r.block(field("x", "y")), EndHeaders: true, EndStream: true}))
	if res := r.answer(id); res.status != int(codes.Internal) {
		t.Errorf("trailers: %+v", res)
	}
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: id + 2, BlockFragment: r.fields("/t/echo"), EndHeaders: true, EndStream: true}))
	if res := r.answer(id + 2); res.status != int(codes.Internal) {
		t.Errorf("headers alone: %+v", res)
	}
}

// A decompression bomb is refused when it has grown to the limit of requests.
func TestDecompressionBomb(t *testing.T) {
	s := newTestServer(t)
	s.receiving.limit = 4 << 20
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for range 8 {
		w.Write(make([]byte, 1<<20))
	}
	w.Close()
	bomb := framed(b.Bytes())
	bomb[0] = 1
	r := s.dialRaw(t)
	r.headers(1, "/t/echo", field("grpc-encoding", "gzip"))
	for len(bomb) > 16<<10 {
		r.must(r.fr.WriteData(1, false, bomb[:16<<10]))
		bomb = bomb[16<<10:]
	}
	r.must(r.fr.WriteData(1, true, bomb))
	if res := r.answer(1); res.status != int(codes.ResourceExhausted) {
		t.Errorf("%+v", res)
	}
}
