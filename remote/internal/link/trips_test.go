package link

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/trust"
	"github.com/troupe-run/troupe/remote/spec"
)

// startFar starts a task on a network in memory, behind a port.
func startFar(t *testing.T, net *simnet.Net, s *spec.Spec, index int, options ...option) *Links {
	t.Helper()
	task := s.Tasks()[index]
	host, _, err := spec.SplitAddress(task.Address)
	if err != nil {
		t.Fatal(err)
	}
	silent := slog.New(slog.DiscardHandler)
	p, err := port.Listen(port.Config{Address: task.Address, Network: net.Host(host).Process(), Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	open := func(ctx context.Context, address, method string) (Stream, error) {
		s, err := p.OpenStream(ctx, address, method)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	c := Config{Spec: s, Self: task, Boot: uint64(index) + 1, Call: p.Call, Open: open, Confirm: true, Logger: silent}
	for _, o := range options {
		o(&c)
	}
	l := New(c)
	services := p.Services()
	l.Register(services.Early())
	l.Handle(func(method string, serve func(context.Context, Stream) error) {
		services.HandleStream(method, func(ctx context.Context, s *http2.Stream) error { return serve(ctx, s) })
	})
	services.Open()
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestHandshakes counts the half round trips of links, of the first message in each direction, and of a link that answers another one.
func TestHandshakes(t *testing.T) {
	const half = 200 * time.Millisecond
	for name, c := range map[string]struct {
		secret       *trust.Secret
		link, answer int // half round trips of a link, and of one in the other direction
	}{
		"open":          {nil, 8, 4},
		"with a secret": {secretFile(t, "x"), 8, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := spec.Parse("worker=10.0.0.1:1,10.0.0.2:1")
				if err != nil {
					t.Fatal(err)
				}
				net, here, there := simnet.New(1), newStage(), newStage()
				net.Delay(half)
				a := startFar(t, net, s, 0, knowing(c.secret), here.on(0))
				b := startFar(t, net, s, 1, knowing(c.secret), there.on(1))
				began := time.Now()
				count := func(what string, want int) {
					t.Helper()
					if took := time.Since(began); took != time.Duration(want)*half {
						t.Errorf("%s took %.2f half round trips, not %d", what, float64(took)/float64(half), want)
					}
					began = time.Now()
				}
				w, err := a.Reach(t.Context(), task1)
				if err != nil {
					t.Fatal(err)
				}
				count("the link", c.link)
				post(t, w, 1)
				there.next(t)
				count("the message", 1)
				if w, err = b.Reach(t.Context(), task0); err != nil {
					t.Fatal(err)
				}
				post(t, w, 2)
				here.next(t)
				count("the answer", 1)
				if _, err := b.Ensure(t.Context(), task0); err != nil {
					t.Fatal(err)
				}
				count("the link in the other direction", c.answer)
			})
		})
	}
}

// TestLongHello checks that a link comes up whose hello is longer than what HTTP/2 lets a client send before the server's settings arrive.
func TestLongHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "worker=10.0.0.1:1,10.0.0.2:1"
		for i := range 5000 {
			text += fmt.Sprintf(",10.1.%d.%d:%d", i/250, i%250, 10000+i)
		}
		s, err := spec.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		net, there := simnet.New(1), newStage()
		net.Delay(200 * time.Millisecond)
		a, _ := startFar(t, net, s, 0), startFar(t, net, s, 1, there.on(1))
		w, err := a.Reach(t.Context(), task1)
		if err != nil {
			t.Fatal(err)
		}
		post(t, w, 1)
		there.next(t)
	})
}

// TestTry checks that an attempt to open a link fails once, soon, and says why; that callers who wait for the task are not held up by it; and that it opens
// the link when the task is there.
func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := spec.Parse("worker=10.0.0.1:1,10.0.0.2:1")
		if err != nil {
			t.Fatal(err)
		}
		net := simnet.New(1)
		net.Delay(100 * time.Millisecond)
		other := net.Host("10.0.0.2")
		a := startFar(t, net, s, 0, func(c *Config) { c.Timing.Startup = time.Minute })
		try := func(says string, most time.Duration) {
			t.Helper()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := a.Try(ctx, task1, false)
			if says != "" {
				wantError(t, err, status.Unavailable, says)
			} else if err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > most {
				t.Errorf("it took %v", took)
			}
		}
		try("refused", 200*time.Millisecond)
		other.Freeze(true)
		try("it did not answer", 1500*time.Millisecond)
		other.Freeze(false)
		if st, err := a.State(task1); err != nil || len(st.Awaited) > 0 || st.Health != NeverSeen {
			t.Errorf("a task that was looked for: %+v, %v", st, err)
		}
		met := make(chan error, 1)
		go func() {
			_, err := a.Ensure(t.Context(), task1)
			met <- err
		}()
		synctest.Wait()
		if st, err := a.State(task1); err != nil || len(st.Awaited) != 1 {
			t.Errorf("a task that is awaited: %+v, %v", st, err)
		}
		try("refused", 400*time.Millisecond) // the other caller still waits
		startFar(t, net, s, 1)
		if err := <-met; err != nil {
			t.Error(err)
		}
		try("", 0)
	})
}
