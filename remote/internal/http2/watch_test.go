package http2

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// noSettings is an empty SETTINGS frame.
const noSettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// inBubble serves one end of a pipe with the test's fake clock.
func inBubble(t *testing.T, client func(t *testing.T, s *testServer, nc net.Conn)) {
	inBubbleOver(t, net.Pipe, client)
}

// inBubbleOver is inBubble with another pipe.
func inBubbleOver(t *testing.T, pipe func() (near, far net.Conn), client func(t *testing.T, s *testServer, nc net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		s := &testServer{streams: echoStream}
		methods := s.methods()
		s.Server = NewServer(Config{Lookup: func(path string) *Method { return methods[path] }, Codec: testCodec{&s.decoding},
			Closed: func(uint64) { s.closed.Add(1) }, Logger: slog.New(slog.DiscardHandler)})
		near, far := pipe()
		s.Serve(near, nil, 1, nil)
		client(t, s, far)
		far.Close()
		if err := s.Stop(context.Background(), time.Second); err != nil {
			t.Error(err)
		}
		s.pool.awaitBack(t)
	})
}

// openFor returns how long it takes until the server has closed the connection.
func (s *testServer) openFor(t *testing.T, most time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for s.closed.Load() == 0 {
		if time.Since(began) > most {
			t.Fatalf("open for more than %v", most)
		}
		<-time.After(time.Second)
	}
	return time.Since(began)
}

func TestPrefaceNeverComes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *testServer, nc net.Conn) {
		go io.Copy(io.Discard, nc)
		if d := s.openFor(t, time.Minute); d > prefaceTimeout+time.Second {
			t.Error(d)
		}
	})
}

func TestSilentClient(t *testing.T) {
	inBubble(t, func(t *testing.T, s *testServer, nc net.Conn) {
		go io.Copy(io.Discard, nc)
		if _, err := io.WriteString(nc, preface+noSettings); err != nil {
			t.Fatal(err)
		}
		if d := s.openFor(t, 5*time.Minute); d < pingIdle || d > pingIdle+2*pingAnswer {
			t.Error(d)
		}
	})
}

// A client that answers pings stays, however long it sends nothing else.
func TestIdleClient(t *testing.T) {
	inBubble(t, func(t *testing.T, s *testServer, nc net.Conn) {
		r := newRaw(t, nc)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				f, err := r.fr.ReadFrame()
				if err != nil {
					return
				}
				if h := f.Header(); h.Type == 6 && h.Flags == 0 && r.fr.WritePing(true, [8]byte{}) != nil {
					return
				}
			}
		}()
		if _, err := io.WriteString(nc, preface+noSettings); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		if s.closed.Load() != 0 {
			t.Error("an idle client was cut off")
		}
		nc.Close()
		<-done
	})
}

// A client that waits while its request takes long to decode stays, and gets its answer.
func TestSlowlyDecodedRequest(t *testing.T) {
	for _, path := range []string{"/t/echo", "/t/inline"} {
		inBubble(t, func(t *testing.T, s *testServer, nc net.Conn) {
			r := newRaw(t, nc)
			pings := make(chan struct{}, 64)
			answered := make(chan error, 1)
			go func() {
				for {
					f, err := r.fr.ReadFrame()
					if h := f.Header(); err != nil || h.StreamID == 1 {
						answered <- err
						_, _ = io.Copy(io.Discard, nc)
						return
					} else if h.Type == 6 && h.Flags == 0 {
						pings <- struct{}{}
					}
				}
			}()
			if _, err := io.WriteString(nc, preface+noSettings); err != nil {
				t.Fatal(err)
			}
			r.headers(1, path)
			r.rest(1, []byte(slowly))
			for {
				select {
				case <-pings:
					r.must(r.fr.WritePing(true, [8]byte{}))
					continue
				case err := <-answered:
					if err != nil {
						t.Errorf("%s: %v", path, err)
					}
				}
				break
			}
		})
	}
}

// Other calls on the connection go on while a request takes long to decode. Decoding ends soon after the client has cancelled the call,
// its deadline has passed, or the connection is closed.
func TestCallsBesideSlowlyDecodedRequest(t *testing.T) {
	const soon = 100 * time.Millisecond
	for name, end := range map[string]func(r *raw, nc net.Conn){
		"reset":    func(r *raw, _ net.Conn) { r.must(r.fr.WriteRSTStream(1, x.ErrCodeCancel)) },
		"close":    func(_ *raw, nc net.Conn) { nc.Close() },
		"deadline": func(*raw, net.Conn) { <-time.After(10 * time.Second) },
	} {
		for _, path := range []string{"/t/echo", "/t/inline"} {
			t.Run(name+path, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *testServer, nc net.Conn) {
					r := newRaw(t, nc)
					if _, err := io.WriteString(nc, preface+noSettings); err != nil {
						t.Fatal(err)
					}
					frames := make(chan result, 1)
					go func() {
						frames <- r.answer(3)
						_, _ = io.Copy(io.Discard, nc)
					}()
					var more []hpack.HeaderField
					if name == "deadline" {
						more = append(more, hpack.HeaderField{Name: "grpc-timeout", Value: "10S"})
					}
					r.headers(1, path, more...)
					r.rest(1, []byte(slowly))
					began := time.Now()
					r.call(3, path, "quick")
					if res := <-frames; res.status != 0 || string(res.data) != string(framed([]byte("quick"))) || time.Since(began) > soon {
						t.Errorf("the call behind: %+v after %v", res, time.Since(began))
					}
					end(r, nc)
					ended := time.Now()
					for s.decoding.Load() > 0 && time.Since(ended) < slowTime {
						<-time.After(time.Millisecond)
					}
					if d := time.Since(ended); d > soon {
						t.Errorf("decoding ended after %v", d)
					}
				})
			})
		}
	}
}

// A client that accepts no bytes loses its connection, and does not delay the server.
func TestStuckClient(t *testing.T) {
	inBubble(t, func(t *testing.T, s *testServer, nc net.Conn) {
		r := newRaw(t, nc)
		go func() {
			var b [100]byte
			_, _ = io.ReadFull(nc, b[:]) // the greeting; then it stops reading
		}()
		if _, err := io.WriteString(nc, preface+noSettings); err != nil {
			t.Fatal(err)
		}
		r.call(1, "/t/big", "60000 1000")
		if d := s.openFor(t, 5*time.Minute); d < stall || d > stall+2*pingAnswer {
			t.Error(d)
		}
	})
}

// A stream's sender that receives no window does not hang.
func TestStreamWithoutWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		r := newRaw(t, far)
		go io.Copy(io.Discard, far)
		go func() { _ = r.fr.WriteSettings(initialWindow(10)) }()
		st, err := Open(context.Background(), near, "http", "t", "/t/stream")
		if err != nil {
			t.Fatal(err)
		}
		reading := make(chan error)
		go func() {
			_, err := st.Next()
			reading <- err
		}()
		began := time.Now()
		if err := st.Send(make([]byte, defaultWindow)); err == nil || time.Since(began) != stall {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if err := <-reading; err == nil || errors.Is(err, io.EOF) {
			t.Error(err)
		}
		far.Close()
	})
}
