package http2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // registers the compressor
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/remote/internal/freed/freedtest"
)

// echoBoth sends every message back.
func echoBoth(_ context.Context, recv, send func(any) error) error {
	for {
		m := &message{}
		if err := recv(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := send(m); err != nil {
			return err
		}
	}
}

// openBoth opens a call with grpc-go's client.
func openBoth(ctx context.Context, t *testing.T, c *grpc.ClientConn, options ...grpc.CallOption) grpc.ClientStream {
	t.Helper()
	st, err := c.NewStream(ctx, bidi, "/t/both", options...)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// settled fails the test unless the connections have no calls left.
func (s *testServer) settled(t *testing.T) {
	t.Helper()
	eventually(t, "no call is left", func() bool {
		for _, c := range s.all() {
			c.mu.Lock()
			left := len(c.streams) + c.running + int(c.unsent)
			c.mu.Unlock()
			if left != 0 {
				return false
			}
		}
		return s.receiving.total.Load() == 0
	})
}

// Messages arrive complete and in order, larger ones than the window too, and the handler's status follows the last one.
func TestBidi(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	end := error(nil)
	s.both = func(ctx context.Context, recv, send func(any) error) error {
		if err := echoBoth(ctx, recv, send); err != nil {
			return err
		}
		return end
	}
	for _, end = range []error{nil, status.Error(codes.DataLoss, "it ended so")} {
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor("gzip")}} {
			for _, size := range []int{0, 10, 5000, 300 << 10, 2*streamWindow + 1} {
				n := min(100, 1+(4<<20)/(size+1))
				if options != nil && size > 1<<20 {
					continue
				}
				st := openBoth(withDeadline(t), t, c, options...)
				var sending sync.WaitGroup
				sending.Go(func() {
					for i := range n {
						if err := st.SendMsg(&message{data: numbered(i, size)}); err != nil {
							t.Error(err)
						}
					}
					if err := st.CloseSend(); err != nil {
						t.Error(err)
					}
				})
				for i := range n {
					m := &message{}
					if err := st.RecvMsg(m); err != nil || !bytes.Equal(m.data, numbered(i, size)) {
						t.Fatalf("message %d of %d bytes: %d bytes, %v", i, size, len(m.data), err)
					}
				}
				err := st.RecvMsg(&message{})
				if end == nil && !errors.Is(err, io.EOF) || end != nil && (status.Code(err) != codes.DataLoss || status.Convert(err).Message() != "it ended so") {
					t.Errorf("after %d messages of %d bytes: %v", n, size, err)
				}
				sending.Wait()
			}
		}
	}
	s.settled(t)
}

// numbered returns size bytes that differ for different numbers, unless there are none.
func numbered(n, size int) []byte {
	b := make([]byte, size)
	if size > 0 {
		freedtest.Fill(b, []byte{byte(n), 1, 2, 3, 5, 7, 11}[:min(7, size)])
	}
	return b
}

// Many calls with streams of messages and unary calls share a connection.
func TestManyBidis(t *testing.T) {
	s := newTestServer(t)
	s.both = echoBoth
	c := s.dial(t)
	ctx := withDeadline(t)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			st := openBoth(ctx, t, c)
			for k := range 20 {
				m := &message{}
				if err := errors.Join(st.SendMsg(&message{data: numbered(i+k, 100*k)}), st.RecvMsg(m)); err != nil || !bytes.Equal(m.data, numbered(i+k, 100*k)) {
					t.Errorf("stream %d, message %d: %v", i, k, err)
					return
				}
				if _, err := invoke(ctx, c, []string{"/t/echo", "/t/inline"}[k%2], []byte("x")); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(st.CloseSend(), st.RecvMsg(&message{})); !errors.Is(err, io.EOF) {
				t.Errorf("stream %d ended with %v", i, err)
			}
		})
	}
	all.Wait()
	s.settled(t)
}

// A handler that does not receive stops its client at the window of the call. Other calls of the connection continue, and the window
// opens when the handler goes on.
func TestBidiOfASlowHandler(t *testing.T) {
	s := newTestServer(t)
	release := make(chan struct{})
	s.both = func(ctx context.Context, recv, send func(any) error) error {
		s.entered <- struct{}{}
		<-release
		return echoBoth(ctx, recv, send)
	}
	r := s.dialRaw(t)
	r.headers(1, "/t/both")
	<-s.entered
	frame := framed(make([]byte, 1<<20-prefixSize))
	for range streamWindow / len(frame) {
		r.must(r.fr.WriteData(1, false, frame))
	}
	r.headers(3, "/t/both")
	<-s.entered
	r.large(5, "/t/unread", connWindow) // the window of the connection opens in any case
	if res := r.answer(5); codes.Code(res.status) != codes.Aborted {
		t.Errorf("%+v", res)
	}
	if held := s.receiving.total.Load(); held < streamWindow {
		t.Errorf("%d bytes are counted", held)
	}
	s.check(t, func(c *serverConn) error {
		if b := c.streams[1]; b.credit != 0 || len(b.inbox.queue) != streamWindow/len(frame) {
			return fmt.Errorf("credit %d, %d messages", b.credit, len(b.inbox.queue))
		}
		return nil
	})
	close(release)
	r.must(r.fr.WriteWindowUpdate(0, 1<<30))
	r.must(r.fr.WriteWindowUpdate(1, 1<<30))
	var window int
	for got := 0; window < streamWindow/2 || got < streamWindow; {
		f, err := r.fr.ReadFrame()
		r.must(err)
		switch f := f.(type) {
		case *x.WindowUpdateFrame:
			if f.StreamID == 1 {
				window += int(f.Increment)
			}
		case *x.DataFrame:
			got += len(f.Data())
		}
	}
	r.must(r.fr.WriteData(1, true, frame))
	r.must(r.fr.WriteData(3, true, nil))
	s.settled(t)
}

// More DATA than the window of a call ends the connection.
func TestBidiBeyondItsWindow(t *testing.T) {
	s := newTestServer(t)
	s.both = func(ctx context.Context, _, _ func(any) error) error {
		<-ctx.Done()
		s.left <- ctx.Err()
		return nil
	}
	r := s.dialRaw(t)
	r.headers(1, "/t/both")
	frame := appendPrefix(nil, 10*streamWindow)
	frame = append(frame, make([]byte, 1<<20-len(frame))...)
	for range streamWindow/len(frame) + 1 {
		if r.fr.WriteData(1, false, frame) != nil {
			break
		}
	}
	if code, said := r.goneAway(); said && code != x.ErrCodeFlowControl {
		t.Error(code)
	}
	if err := <-s.left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A call ends for its handler when the client resets it, its deadline passes or the connection ends, whether the handler receives, sends
// or does neither.
func TestBidiEnds(t *testing.T) {
	handlers := map[string]func(ctx context.Context, recv, send func(any) error) error{
		"receiving": func(_ context.Context, recv, _ func(any) error) (err error) {
			for err == nil {
				err = recv(&message{})
			}
			return err
		},
		"sending": func(_ context.Context, _, send func(any) error) (err error) {
			for err == nil {
				err = send(&message{data: make([]byte, 1000)})
			}
			return err
		},
		"computing": func(ctx context.Context, _, _ func(any) error) error {
			<-ctx.Done()
			return ctx.Err()
		},
	}
	for name, end := range map[string]struct {
		headers []hpackField
		ends    func(r *raw)
	}{
		"reset":      {nil, func(r *raw) { r.must(r.fr.WriteRSTStream(1, x.ErrCodeCancel)) }},
		"connection": {nil, func(r *raw) { r.nc.Close() }},
		"nonsense":   {nil, func(r *raw) { r.must(r.fr.WriteData(2, false, nil)) }},
		"deadline":   {[]hpackField{field("grpc-timeout", "20m")}, func(*raw) {}},
	} {
		for kind, handler := range handlers {
			t.Run(name+" while "+kind, func(t *testing.T) {
				s := newTestServer(t)
				s.both = func(ctx context.Context, recv, send func(any) error) error {
					s.entered <- struct{}{}
					err := handler(ctx, recv, send)
					<-ctx.Done()
					s.left <- errors.Join(recv(&message{}), send(&message{}))
					return err
				}
				r := s.dialRaw(t, initialWindow(20))
				r.headers(1, "/t/both", end.headers...)
				r.must(r.fr.WriteData(1, false, framed(make([]byte, 5000)))) // one is complete, and one is not
				r.must(r.fr.WriteData(1, false, framed(make([]byte, 100<<10))[:70<<10]))
				<-s.entered
				end.ends(r)
				if err := <-s.left; err == nil {
					t.Error("messages after the end")
				}
				s.settled(t)
			})
		}
	}
}

// The status of a handler that returns early overtakes what the client sends, and the memory of that is freed.
func TestBidiReturnsEarly(t *testing.T) {
	s := newTestServer(t)
	s.both = func(_ context.Context, recv, _ func(any) error) error {
		return errors.Join(recv(&message{}), status.Error(codes.Aborted, "enough"))
	}
	r := s.dialRaw(t)
	for i := range 50 {
		id := uint32(2*i + 1)
		r.headers(id, "/t/both")
		for range 3 {
			r.must(r.fr.WriteData(id, false, framed([]byte("some message"))))
		}
		r.must(r.fr.WriteData(id, false, framed(make([]byte, 100<<10))[:70<<10]))
	}
	resets := 0
	for resets < 50 {
		f, err := r.fr.ReadFrame()
		r.must(err)
		switch f := f.(type) {
		case *x.HeadersFrame:
			_, err := r.dec.DecodeFull(f.HeaderBlockFragment())
			r.must(err)
		case *x.RSTStreamFrame:
			if resets++; f.ErrCode != x.ErrCodeNo {
				t.Errorf("reset with %v", f.ErrCode)
			}
		}
	}
	for i := range 50 { // what was in flight
		r.must(r.fr.WriteData(uint32(2*i+1), i%2 == 0, make([]byte, 1000)))
	}
	r.call(1001, "/t/inline", "x")
	r.answer(1001).echoed(t, "x")
	s.settled(t)
}

// Malformed messages end their call, after the messages before them.
func TestBidiMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		sends []byte
		ends  bool
		want  codes.Code
	}{
		"half a prefix":  {[]byte{0, 0}, true, codes.Internal},
		"half a message": {framed(make([]byte, 100))[:50], true, codes.Internal},
		"too large":      {[]byte{0, 255, 255, 255, 255, 1, 2, 3}, false, codes.ResourceExhausted},
		"unknown form":   {[]byte{1, 0, 0, 0, 1, 9}, true, codes.Unimplemented},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t)
			s.both = echoBoth
			r := s.dialRaw(t)
			r.headers(1, "/t/both", field("grpc-encoding", "snappy"))
			r.must(r.fr.WriteData(1, c.ends, append(framed([]byte("fine")), c.sends...)))
			res := r.answer(1)
			if codes.Code(res.status) != c.want || !bytes.Equal(res.data, framed([]byte("fine"))) {
				t.Errorf("status %d %q, %q", res.status, res.message, res.data)
			}
			r.call(3, "/t/inline", "x")
			r.answer(3).echoed(t, "x")
			s.settled(t)
		})
	}
}

// Trailers without data end a client's messages, and a call may have none.
func TestBidiWithoutMessages(t *testing.T) {
	s := newTestServer(t)
	s.both = echoBoth
	r := s.dialRaw(t)
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields("/t/both"), EndHeaders: true, EndStream: true}))
	if res := r.answer(1); res.status != 0 || len(res.data) != 0 {
		t.Errorf("%+v", res)
	}
	r.headers(3, "/t/both")
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 3, BlockFragment: r.block(field("x-trailer", "1")), EndHeaders: true, EndStream: true}))
	if res := r.answer(3); res.status != 0 {
		t.Errorf("%+v", res)
	}
	r.must(r.fr.WriteData(3, false, nil))
	r.ping()
	s.settled(t)
}

// When memory is short, the messages that wait for a handler that does not receive are given up first, with their call.
func TestUnreadMessagesAreEvicted(t *testing.T) {
	s := newTestServer(t)
	s.receiving.limit = 4 << 20
	release := make(chan struct{})
	s.both = func(_ context.Context, recv, _ func(any) error) error {
		s.entered <- struct{}{}
		<-release
		var err error
		for err == nil {
			err = recv(&message{})
		}
		return err
	}
	hoarder := s.dialRaw(t)
	hoarder.headers(1, "/t/both")
	<-s.entered
	for range 30 { // each counts for more than the bytes that were sent
		hoarder.must(hoarder.fr.WriteData(1, false, bytes.Repeat(framed(nil), 200)))
	}
	hoarder.ping()
	if held := s.receiving.total.Load(); held < 30*200*messageOverhead {
		t.Errorf("%d bytes are counted", held)
	}
	r := s.dialRawFrom(t, "127.0.0.2")
	r.large(1, "/t/unread", 2<<20)
	if res := r.answer(1); codes.Code(res.status) != codes.Aborted {
		t.Errorf("the other client: %d %s", res.status, res.message)
	}
	close(release)
	if res := hoarder.answer(1); codes.Code(res.status) != codes.ResourceExhausted {
		t.Errorf("%d %s", res.status, res.message)
	}
	s.settled(t)
}

// Stop ends calls that wait for messages, after those that have arrived.
func TestStopEndsBidis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveOn(l)
	s.both = func(ctx context.Context, recv, send func(any) error) error {
		s.entered <- struct{}{}
		<-s.release
		return echoBoth(ctx, recv, send)
	}
	r := s.dialRaw(t)
	r.headers(1, "/t/both")
	<-s.entered
	r.must(r.fr.WriteData(1, false, framed([]byte("x"))))
	r.ping()
	stopped := make(chan error, 1)
	began := time.Now()
	go func() { stopped <- s.end() }()
	for {
		f, err := r.fr.ReadFrame()
		r.must(err)
		if _, ok := f.(*x.GoAwayFrame); ok {
			break
		}
	}
	close(s.release)
	if res := r.answer(1); codes.Code(res.status) != codes.Unavailable || !bytes.Equal(res.data, framed([]byte("x"))) {
		t.Errorf("%d %s, %q", res.status, res.message, res.data)
	}
	r.nc.Close()
	if err := <-stopped; err != nil || time.Since(began) > patience/2 {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A burst of messages to a handler that keeps up is not mistaken for frames without data.
func TestManySmallMessages(t *testing.T) {
	s := newTestServer(t)
	n := 0
	s.both = func(_ context.Context, recv, _ func(any) error) error {
		for {
			if err := recv(&message{}); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			n++
		}
	}
	r := s.dialRaw(t)
	r.headers(1, "/t/both")
	const many = 3 * overheadBurst
	for range many {
		r.must(r.fr.WriteData(1, false, framed([]byte("x"))))
	}
	r.must(r.fr.WriteData(1, true, nil))
	if res := r.answer(1); res.status != 0 || n != many {
		t.Errorf("%d of %d messages, status %d %s", n, many, res.status, res.message)
	}
}

func BenchmarkBidi(b *testing.B) {
	s := newTestServer(b)
	s.both = echoBoth
	c := s.dial(b)
	st, err := c.NewStream(context.Background(), bidi, "/t/both")
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 300)
	b.ReportAllocs()
	for b.Loop() {
		if err := errors.Join(st.SendMsg(&message{data: data}), st.RecvMsg(&message{})); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.CloseSend(); err != nil {
		b.Fatal(err)
	}
}
