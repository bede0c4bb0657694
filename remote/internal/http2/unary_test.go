package http2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestUnary(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	for _, path := range []string{"/t/echo", "/t/inline", "/t/early", "/t/late"} {
		for _, n := range []int{0, 1, 4 << 10, inputSize - prefixSize, inputSize, 60 << 10, 70 << 10, 1 << 20, 5<<20 + 1} {
			data := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
			if got, err := invoke(withDeadline(t), c, path, data); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%s of %d bytes: %d bytes, %v", path, n, len(got), err)
			}
		}
	}
}

func TestUnaryLarge(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t, grpc.WithInitialWindowSize(1<<20))
	data := bytes.Repeat([]byte("0123456789abcde"), 1<<20)
	got, err := invoke(withDeadline(t), c, "/t/echo", data)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestUnaryConcurrent(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	var calls sync.WaitGroup
	for i := range 1000 {
		calls.Go(func() {
			path := []string{"/t/echo", "/t/inline", "/t/early", "/t/late", "/t/big"}[i%5]
			data := bytes.Repeat([]byte{byte(i)}, i*50)
			n := len(data)
			if path == "/t/big" {
				n = i * 100
				data = fmt.Appendf(nil, "%d %d", n, 3000)
			}
			got, err := invoke(withDeadline(t), c, path, data)
			if err != nil || len(got) != n || path != "/t/big" && !bytes.Equal(got, data) {
				t.Errorf("call %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	calls.Wait()
	s.pool.awaitBack(t)
}

func TestUnaryErrors(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	const text = "50% of the ärger\nis \x00 here %41"
	_, err := invoke(withDeadline(t), c, "/t/fail", []byte(text))
	if status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != text {
		t.Errorf("%v", err)
	}
	if _, err := invoke(withDeadline(t), c, "/t/nothing", make([]byte, 1<<20)); status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown method: %v", err)
	}
	if _, err := invoke(withDeadline(t), c, "/t/unread", make([]byte, 3<<20)); status.Code(err) != codes.Aborted {
		t.Errorf("an error without reading: %v", err)
	}
	if _, err := invoke(withDeadline(t), c, "/t/unwritten", nil); status.Code(err) != codes.Internal {
		t.Errorf("an answer that cannot be written: %v", err)
	}
	if _, err := invoke(withDeadline(t), c, "/t/refused", nil); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an answer that is refused while it is written: %v", err)
	}
	if _, err := invoke(metadata.AppendToOutgoingContext(withDeadline(t), "x-bin", "\x01\x02", "a", "b"), c, "/t/echo", nil); err != nil {
		t.Errorf("with metadata: %v", err)
	}
}

func TestUnaryCompressed(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	for _, n := range []int{0, 1000, 3 << 20} {
		data := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
		reply := &message{}
		if err := c.Invoke(withDeadline(t), "/t/echo", &message{data: data}, reply, grpc.UseCompressor(gzip.Name)); err != nil || !bytes.Equal(reply.data, data) {
			t.Errorf("%d bytes, %v", len(reply.data), err)
		}
	}
}

func TestUnaryCancel(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	ctx, cancel := context.WithCancel(withDeadline(t))
	ended := make(chan error, 100)
	for range cap(ended) {
		go func() {
			_, err := invoke(ctx, c, "/t/wait", nil)
			ended <- err
		}()
	}
	for range cap(ended) {
		<-s.entered
	}
	cancel()
	for range cap(ended) {
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Fatal(err)
		}
	}
	eventually(t, "the handlers end", func() bool {
		running := 0
		for _, c := range s.all() {
			c.mu.Lock()
			running += c.running + len(c.streams)
			c.mu.Unlock()
		}
		return running == 0
	})
	if _, err := invoke(withDeadline(t), c, "/t/echo", nil); err != nil {
		t.Error(err)
	}
}

func TestUnaryDeadline(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	// The client that waits for its answer learns of the deadline from the server's handler.
	r.headers(1, "/t/wait", field("grpc-timeout", "20m"))
	r.must(r.fr.WriteData(1, true, framed(nil)))
	if res := r.answer(1); res.status != int(codes.DeadlineExceeded) {
		t.Errorf("%+v", res)
	}
	r.headers(3, "/t/wait", field("grpc-timeout", "20x"))
	if res := r.answer(3); res.status != int(codes.Internal) {
		t.Errorf("%+v", res)
	}
}

func TestStopWhileRunning(t *testing.T) {
	s := newTestServer(t)
	c := s.dial(t)
	type reply struct {
		data []byte
		err  error
	}
	got := make(chan reply, 1)
	go func() {
		data, err := invoke(withDeadline(t), c, "/t/wait", []byte("x"))
		got <- reply{data, err}
	}()
	<-s.entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(withDeadline(t), patience) }()
	eventually(t, "the server leaves", func() bool {
		for _, c := range s.all() {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.leaving
		}
		return false
	})
	close(s.release)
	if r := <-got; r.err != nil || string(r.data) != "x" {
		t.Errorf("%q %v", r.data, r.err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// Stop returns in time although a client does not read and a handler ends only with its context.
func TestStopIsBounded(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t, initialWindow(maxWindow))
	r.must(r.fr.WriteWindowUpdate(0, 1<<30))
	r.call(1, "/t/wait", "")
	<-s.entered
	r.call(3, "/t/big", "100000000 1000000")
	eventually(t, "the answer is stuck", func() bool { return s.stuck() })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := s.Stop(ctx, patience); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the stop took %v", d)
	}
	s.pool.awaitBack(t)
}

// stuck reports whether a connection is writing what the other end does not read.
func (s *testServer) stuck() bool {
	for _, c := range s.all() {
		c.mu.Lock()
		busy, sent := c.busy, c.sent
		c.mu.Unlock()
		<-time.After(20 * time.Millisecond)
		c.mu.Lock()
		busy = busy && c.busy && c.sent == sent
		c.mu.Unlock()
		return busy
	}
	return false
}

func TestPeerAndContext(t *testing.T) {
	if _, ok := PeerOf(context.Background()); ok {
		t.Error("a peer of nothing")
	}
	Detach(context.Background())
	OnCancel(context.Background(), func() { t.Error("called for what is no call") })()
	s := newTestServer(t)
	s.streams = nil
	c := &serverConn{server: s.Server, peer: Peer{Connection: 7, Address: &net.TCPAddr{}}}
	k := &call{conn: c}
	derived, cancel := context.WithTimeout(k, time.Hour)
	defer cancel()
	if p, ok := PeerOf(derived); !ok || p.Connection != 7 {
		t.Errorf("%+v", p)
	}
	ends, withdrawn := 0, 0
	OnCancel(derived, func() { ends++ })
	OnCancel(derived, func() { withdrawn++ })()
	after := make(chan struct{})
	stop := context.AfterFunc(derived, func() { close(after) })
	k.end(context.Canceled)
	OnCancel(derived, func() { ends++ })()
	if ends != 2 || withdrawn != 0 { // all on this goroutine
		t.Errorf("%d of 2 were called, and %d that were withdrawn", ends, withdrawn)
	}
	<-after
	if stop() || derived.Err() != context.Canceled || !errors.Is(k.Err(), context.Canceled) {
		t.Error("the context did not end")
	}
	<-k.Done()
	late := make(chan struct{})
	context.AfterFunc(k, func() { close(late) })
	<-late
	overdue := &call{conn: c}
	OnCancel(overdue, func() { t.Error("called for a call whose deadline came") })
	overdue.end(context.DeadlineExceeded)
}
