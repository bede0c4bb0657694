package http2

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// silentServer greets a client with settings, reads what comes, and answers no calls. It answers pings if answers is set. The result is the number of
// pings, once the client has gone.
func silentServer(t *testing.T, nc net.Conn, settings []x.Setting, answers bool) (pings <-chan int) {
	t.Helper()
	came := make(chan int, 1)
	go func() {
		n := 0
		defer func() { came <- n }()
		defer nc.Close()
		if _, err := io.ReadFull(nc, make([]byte, len(preface))); err != nil {
			t.Error(err)
			return
		}
		r := newRaw(t, nc)
		written := make(chan error, 1)
		go func() { written <- r.fr.WriteSettings(settings...) }() // a pipe has no buffer, and the client writes, too
		for {
			f, err := r.fr.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *x.SettingsFrame:
				if f.IsAck() {
					if err := <-written; err != nil {
						t.Error(err)
					}
				}
			case *x.PingFrame:
				if n++; answers && r.fr.WritePing(true, f.Data) != nil {
					return
				}
			}
		}
	}()
	return came
}

// A call ends if the server is silent and does not answer a ping, which it gets no sooner than it says, or than others' servers bear.
func TestSilentServer(t *testing.T) {
	ours := []x.Setting{{ID: settingPings, Val: 45}}
	for name, of := range map[string]struct {
		settings []x.Setting
		answers  bool
		idle     time.Duration // until it is pinged
	}{
		"silent":                  {nil, false, strangerIdle},
		"silent, with our limit":  {ours, false, 45 * time.Second},
		"a limit that is too low": {[]x.Setting{{ID: settingPings, Val: 1}}, false, pingIdle},
		"busy":                    {nil, true, strangerIdle},
		"busy, with our limit":    {ours, true, 45 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				pings := silentServer(t, far, of.settings, of.answers)
				c := newClientOn(t, near)
				<-time.After(time.Hour) // without calls there are no pings
				const long = 2 * time.Hour
				ctx, cancel := context.WithTimeout(t.Context(), long)
				defer cancel()
				began := time.Now()
				_, err := called(ctx, c, "/t/wait", []byte("x"))
				took := time.Since(began)
				c.Close()
				n := <-pings
				if of.answers {
					if most := int(long / of.idle); status.Code(err) != codes.DeadlineExceeded || took != long || n < most/2 || n > most {
						t.Errorf("%v after %v and %d pings", err, took, n)
					}
					return
				}
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), errMute.Error()) {
					t.Error(err)
				}
				if least := of.idle + pingAnswer; took < least || took > least+2*pingAnswer || n != 1 {
					t.Errorf("it took %v and %d pings", took, n)
				}
			})
		})
	}
}

// A server that accepts nothing of a request is silent, too.
func TestServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() {
			r := newRaw(t, far)
			if err := r.fr.WriteSettings(); err != nil {
				t.Error(err)
			}
		}()
		go func() { _, _ = io.ReadFull(far, make([]byte, len(preface)+100)) }()
		c := newClientOn(t, near)
		began := time.Now()
		if _, err := called(t.Context(), c, "/t/wait", make([]byte, 1<<10)); err == nil {
			t.Error("the call has succeeded")
		}
		if took := time.Since(began); took > strangerIdle+4*pingAnswer {
			t.Errorf("it took %v", took)
		}
		far.Close()
	})
}

// buffered is a pipe with buffers, as sockets have them: both ends may write at the same time.
func buffered() (near, far net.Conn) {
	l := bufconn.Listen(1 << 20)
	dialed := make(chan net.Conn, 1)
	go func() {
		nc, err := l.Dial()
		if err != nil {
			panic(err)
		}
		dialed <- nc
	}()
	near, err := l.Accept()
	if err != nil {
		panic(err)
	}
	return near, <-dialed
}

// Servers bear the pings during a call that takes long.
func TestPingsAreBorne(t *testing.T) {
	waits := func(t *testing.T, nc net.Conn) {
		t.Helper()
		c := newClientOn(t, nc)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
		defer cancel()
		if _, err := called(ctx, c, "/t/wait", nil); status.Code(err) != codes.DeadlineExceeded {
			t.Error(err)
		}
	}
	t.Run("ours", func(t *testing.T) {
		inBubbleOver(t, buffered, func(t *testing.T, s *testServer, nc net.Conn) {
			s.entered, s.release = make(chan struct{}, 1), make(chan struct{})
			waits(t, nc)
		})
	})
	t.Run("grpc-go's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := bufconn.Listen(1 << 20)
			serveOther(t, l)
			nc, err := l.Dial()
			if err != nil {
				t.Fatal(err)
			}
			waits(t, nc)
		})
	})
}
