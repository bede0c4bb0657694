package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// count answers with the number of messages in the request, each with the number of counted bytes in it, and then with its code.
func (s *testServer) count(_ context.Context, read func(any) error, send func(any) error) error {
	m := &message{}
	if err := read(m); err != nil {
		return err
	}
	var n, size, code int
	if _, err := fmt.Sscan(string(m.data), &n, &size, &code); err != nil {
		return err
	}
	s.entered <- struct{}{}
	for range n {
		if err := send(&message{wire: s.pool.pattern(size, 5000)}); err != nil {
			s.left <- err
			return err
		}
	}
	s.left <- nil
	if code != 0 {
		return status.Error(codes.Code(code), "it ended so")
	}
	return nil
}

// messages makes a call with grpc-go's client and counts the messages received.
func messages(ctx context.Context, t *testing.T, c *grpc.ClientConn, request string, size int) (n int, _ error) {
	t.Helper()
	st, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/t/count")
	if err == nil {
		err = st.SendMsg(&message{data: []byte(request)})
	}
	if err == nil {
		err = st.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
	for ; ; n++ {
		m := &message{}
		if err := st.RecvMsg(m); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		if len(m.data) != size {
			t.Fatalf("message %d has %d bytes, want %d", n, len(m.data), size)
		}
	}
}

func TestManyMessages(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	for _, size := range []int{0, 10, 5000, 300 << 10} {
		for _, n := range []int{0, 1, 30} {
			got, err := messages(withDeadline(t), t, c, fmt.Sprint(n, size, 0), size)
			if got != n || err != nil {
				t.Errorf("%d messages of %d bytes, %v", got, size, err)
			}
			got, err = messages(withDeadline(t), t, c, fmt.Sprint(n, size, int(codes.DataLoss)), size)
			if got != n || status.Code(err) != codes.DataLoss || status.Convert(err).Message() != "it ended so" {
				t.Errorf("%d messages of %d bytes, %v", got, size, err)
			}
		}
	}
	if _, err := messages(withDeadline(t), t, c, "nonsense", 0); status.Code(err) != codes.Unknown {
		t.Error(err)
	}
	s.pool.awaitBack(t)
	s.check(t, func(c *serverConn) error {
		if len(c.streams) > 0 || c.running > 0 || c.unsent != 0 {
			return fmt.Errorf("%d streams, %d handlers, %d bytes", len(c.streams), c.running, c.unsent)
		}
		return nil
	})
}

// One message waits for a client that does not read, and so does its handler. Other calls of the connection continue.
func TestManyMessagesUnread(t *testing.T) {
	for name, c := range map[string]struct {
		headers []hpackField
		ends    func(r *raw)
		want    codes.Code
	}{
		"reset":      {nil, func(r *raw) { r.must(r.fr.WriteRSTStream(1, 8)) }, codes.Unknown},
		"connection": {nil, func(r *raw) { r.nc.Close() }, codes.Unknown},
		"deadline": {[]hpackField{field("grpc-timeout", "50m")}, func(r *raw) {
			if res := r.answer(1); res.status != int(codes.DeadlineExceeded) { // it needs no window
				t.Errorf("%+v", res)
			}
		}, codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestServer(t)
			r := s.dialRaw(t, initialWindow(20))
			r.headers(1, "/t/count", c.headers...)
			r.must(r.fr.WriteData(1, true, framed([]byte("100 1000 0"))))
			<-s.entered
			eventually(t, "a message waits", func() bool { return s.pool.taken.Load() == 2 })
			r.call(3, "/t/inline", "x")
			if name != "deadline" { // which may expire in between
				r.answer(3).echoed(t, "x")
			}
			c.ends(r)
			if err := <-s.left; err == nil || c.want != codes.Unknown && status.Code(err) != c.want {
				t.Error(err)
			}
			s.pool.awaitBack(t)
			if n := s.pool.taken.Load(); n != 2 {
				t.Errorf("%d messages were made", n)
			}
		})
	}
}

// A window that opens bit by bit lets one message through after another.
func TestManyMessagesOfASlowReader(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t, initialWindow(0))
	r.call(1, "/t/count", "20 50 0")
	go func() {
		for range 20 * (50 + prefixSize) / 5 {
			if r.fr.WriteWindowUpdate(1, 5) != nil {
				return
			}
		}
	}()
	if res := r.answer(1); res.status != 0 || len(res.data) != 20*(50+prefixSize) {
		t.Errorf("status %d, %d bytes", res.status, len(res.data))
	}
	if err := <-s.left; err != nil {
		t.Error(err)
	}
	s.pool.awaitBack(t)
}
