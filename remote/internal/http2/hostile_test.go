package http2

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// heap returns how many bytes the process holds.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// within fails the test if the process holds more than the given number of additional bytes.
func within(t *testing.T, most int64, does func()) {
	t.Helper()
	before := heap()
	does()
	if grown := heap() - before; grown > most {
		t.Errorf("the process holds %d bytes more", grown)
	}
}

// queued returns how many bytes wait to be written to the only connection.
func (s *testServer) queued() (n int) {
	for _, c := range s.all() {
		c.mu.Lock()
		n += cap(c.queue.buf)
		c.mu.Unlock()
	}
	return n
}

func TestRapidReset(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	block := r.fields("/t/wait")
	within(t, 16<<20, func() {
		var b bytes.Buffer
		fr := x.NewFramer(&b, nil)
		for id := uint32(1); id < 40000; id += 2 {
			r.must(fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true}))
			r.must(fr.WriteData(id, true, framed(nil)))
			r.must(fr.WriteRSTStream(id, x.ErrCodeCancel))
			if b.Len() > 1<<16 {
				_, err := b.WriteTo(r.nc)
				r.must(err)
			}
			block = r.fields("/t/wait")
			select {
			case <-s.entered:
			default:
			}
		}
		_, err := b.WriteTo(r.nc)
		r.must(err)
		r.ping()
		eventually(t, "the calls end", func() bool {
			for _, c := range s.all() {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.running == 0 && len(c.streams) == 0
			}
			return false
		})
	})
	if n := s.queued(); n > 1<<20 {
		t.Errorf("%d bytes are queued", n)
	}
}

// Handlers that do not end are limited like calls, however often the client resets.
func TestHandlersAreBounded(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	for id := uint32(1); id <= 2*maxStreams+1; id += 2 {
		if id == 2*maxStreams+1 {
			break
		}
		r.call(id, "/t/wait", "")
	}
	for range maxStreams {
		<-s.entered
	}
	r.call(2*maxStreams+1, "/t/echo", "x")
	if res := r.answer(2*maxStreams + 1); res.status != -1 || res.code != x.ErrCodeRefusedStream {
		t.Errorf("%+v", res)
	}
	r.must(r.fr.WriteRSTStream(1, x.ErrCodeCancel))
	eventually(t, "there is room again", func() bool {
		for _, c := range s.all() {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.running < maxStreams
		}
		return false
	})
	r.call(2*maxStreams+3, "/t/echo", "x")
	r.answer(2*maxStreams+3).echoed(t, "x")
}

// The server stops reading from a client that provokes answers and reads none.
func TestFloods(t *testing.T) {
	for name, frame := range map[string]func(r *raw, fr *x.Framer, id uint32) error{
		"PING":     func(_ *raw, fr *x.Framer, _ uint32) error { return fr.WritePing(false, [8]byte{}) },
		"SETTINGS": func(_ *raw, fr *x.Framer, _ uint32) error { return fr.WriteSettings() },
		"unknown methods": func(r *raw, fr *x.Framer, id uint32) error {
			long := hpack.HeaderField{Name: "x", Value: strings.Repeat("\\", 2000), Sensitive: true} // neither compressed nor put into the table
			return fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: r.fields("/"+strings.Repeat("x", 300), long)})
		},
		"malformed headers": func(r *raw, fr *x.Framer, id uint32) error {
			return fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: r.fields("/", hpack.HeaderField{Name: "X"})})
		},
		"requests that are not gRPC's": func(r *raw, fr *x.Framer, id uint32) error {
			return fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true,
				BlockFragment: r.block(field(":method", "GET"), field(":scheme", "http"), field(":path", "/"))})
		},
		"PRIORITY that is cut": func(r *raw, fr *x.Framer, id uint32) error {
			if id == 1 {
				return fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: r.fields("/t/echo")})
			}
			return fr.WriteRawFrame(x.FramePriority, 0, 1, make([]byte, 4))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t)
			r := s.dialRaw(t)
			r.must(r.nc.(*net.TCPConn).SetReadBuffer(4 << 10))
			var b bytes.Buffer
			fr := x.NewFramer(&b, nil)
			id := uint32(1)
			within(t, 32<<20, func() {
				// It blocks when the server stops reading and the kernel's buffers are full.
				for sent := 0; ; sent += b.Len() {
					for b.Reset(); b.Len() < 1<<20; id += 2 {
						r.must(frame(r, fr, id))
					}
					r.must(r.nc.SetWriteDeadline(time.Now().Add(time.Second)))
					if _, err := r.nc.Write(b.Bytes()); err != nil {
						break
					}
					if sent > 1<<30 {
						t.Fatal("the server swallows everything")
					}
				}
			})
			if n := s.queued(); n > 4<<20 {
				t.Errorf("%d bytes are queued", n)
			}
		})
	}
}

func TestContinuationFlood(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	within(t, 4<<20, func() {
		r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1}))
		for r.fr.WriteContinuation(1, false, make([]byte, 16<<10)) == nil {
			if n := s.all(); len(n) == 0 {
				break
			}
		}
		r.goneAway()
	})
}

func TestHeadersTooLarge(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	// Small on the wire, large when decoded.
	block := r.fields("/t/echo", field("x", strings.Repeat("x", 3000)))
	for range 100 {
		block = append(block, 0x80|62)
	}
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true}))
	if res := r.answer(1); res.status != int(codes.ResourceExhausted) {
		t.Errorf("%+v", res)
	}
	r.call(3, "/t/echo", "x")
	r.answer(3).echoed(t, "x")
}

// Announced sizes cost the server nothing before bytes arrive, and do not lock others out.
func TestClaims(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	within(t, 16<<20, func() {
		for id := uint32(1); id < 2000; id += 2 {
			r.headers(id, "/t/echo")
			r.must(r.fr.WriteData(id, false, []byte{0, 0x7f, 0xff, 0xff, 0xff}))
		}
		r.ping()
	})
	if n := s.receiving.total.Load(); n != 0 {
		t.Errorf("%d bytes are counted", n)
	}
	within(t, 48<<20, func() {
		for id := uint32(1); id < 2000; id += 2 {
			r.must(r.fr.WriteData(id, false, []byte{1}))
		}
		r.ping()
	})
	if n := s.receiving.total.Load(); n > 1000*smallPiece {
		t.Errorf("%d bytes are counted", n)
	}
	r.nc.Close()
	eventually(t, "all is let go", func() bool { return s.receiving.total.Load() == 0 })
}

func TestRequestsAreBounded(t *testing.T) {
	s := newTestServer(t)
	s.receiving.limit = 3 << 20
	r := s.dialRaw(t)
	r.large(1, "/t/echo", 8<<20)
	if res := r.answer(1); res.status != int(codes.ResourceExhausted) {
		t.Errorf("%+v", res)
	}
	if n := s.receiving.total.Load(); n != 0 {
		t.Errorf("%d bytes are counted", n)
	}
	r.call(3, "/t/echo", "x")
	r.answer(3).echoed(t, "x")
}

// A client that sends more than its window is disconnected.
func TestWindowOverflow(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	r.headers(1, "/t/echo")
	r.must(r.fr.WriteData(1, false, []byte{0, 0x7f, 0xff, 0xff, 0xff}))
	r.ping()
	for _, c := range s.all() {
		c.mu.Lock()
		c.streams[1].credit = 1000 // as if the server had not read
		c.mu.Unlock()
	}
	r.must(r.fr.WriteData(1, false, make([]byte, 2000)))
	if code, _ := r.goneAway(); code != x.ErrCodeFlowControl {
		t.Error(code)
	}
}

// Answers that a client does not read delay its further calls, and are finally refused.
func TestUnreadAnswers(t *testing.T) {
	s := newTestServer(t)
	s.maxUnsent = 16 << 20 // calls wait from 1 MiB on
	r := s.dialRaw(t, initialWindow(0))
	r.call(1, "/t/wait", "")
	<-s.entered
	r.call(3, "/t/big", fmt.Sprint(2<<20, 1<<20))
	r.ping()
	taken := s.pool.taken.Load()
	for id := uint32(5); id < 205; id += 2 {
		r.call(id, "/t/big", fmt.Sprint(2<<20, 1<<20))
	}
	r.ping()
	if n := s.pool.taken.Load(); n != taken {
		t.Errorf("%d buffers are made for a client that does not read", n-taken)
	}
	// Other clients are not delayed.
	other := s.dialRaw(t)
	other.call(1, "/t/inline", "x")
	other.answer(1).echoed(t, "x")
	// A reset allows the next one to run; reading allows all.
	r.must(r.fr.WriteRSTStream(5, x.ErrCodeCancel))
	r.must(r.fr.WriteSettings(initialWindow(1 << 24)))
	r.must(r.fr.WriteWindowUpdate(0, 1<<30))
	over := 0
	for over < 100 { // of 3 and of the waiting ones
		f, err := r.fr.ReadFrame()
		r.must(err)
		if h, ok := f.(*x.HeadersFrame); ok {
			_, err := r.dec.DecodeFull(h.HeaderBlockFragment())
			r.must(err)
			if h.StreamEnded() {
				over++
			}
		}
	}
	close(s.release)
	r.answer(1).echoed(t, "")
	s.pool.awaitBack(t)
}

func TestAnswersAreRefusedAtLast(t *testing.T) {
	s := newTestServer(t)
	s.maxUnsent = 1 << 20
	r := s.dialRaw(t, initialWindow(0))
	r.large(1, "/t/wait", 900<<10)
	<-s.entered
	r.large(3, "/t/wait", 900<<10)
	<-s.entered
	close(s.release)
	refused := 0
	for refused == 0 {
		f, err := r.fr.ReadFrame()
		r.must(err)
		if h, ok := f.(*x.HeadersFrame); ok {
			fields, err := r.dec.DecodeFull(h.HeaderBlockFragment())
			r.must(err)
			for _, h := range fields {
				if h == field("grpc-status", "8") {
					refused++
				}
			}
		}
	}
	s.check(t, func(c *serverConn) error {
		if len(c.streams) != 1 || c.unsent != prefixSize+900<<10 {
			return fmt.Errorf("%d calls, %d bytes", len(c.streams), c.unsent)
		}
		return nil
	})
}

// Slow clients cost one connection each; garbage costs nothing.
func TestGarbage(t *testing.T) {
	s := newTestServer(t)
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n        ", "\x16\x03\x01" + strings.Repeat("x", 100), preface + strings.Repeat("\xff", 100)} {
		nc, err := net.Dial("tcp", s.addr())
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		r := newRaw(t, nc)
		_, err = nc.Write([]byte(text))
		r.must(err)
		r.goneAway()
	}
	eventually(t, "the connections end", func() bool { return s.closed.Load() == 3 })
}

func TestSlowWriter(t *testing.T) {
	s := newTestServer(t)
	near, far := net.Pipe()
	s.Serve(near, nil, 1, nil)
	r := newRaw(t, far)
	var b bytes.Buffer
	fr := x.NewFramer(&b, nil)
	b.WriteString(preface)
	r.must(fr.WriteSettings())
	r.must(fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields("/t/inline"), EndHeaders: true}))
	r.must(fr.WriteData(1, true, framed([]byte("slow"))))
	go func() {
		for _, c := range b.Bytes() {
			if _, err := far.Write([]byte{c}); err != nil {
				return
			}
		}
	}()
	r.answer(1).echoed(t, "slow")
}
