//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
)

const (
	slowBytes = 64 * mebibyte // the size that slow clients fetch or feed
	// slowClient bounds the MiB of the server's memory that one slow client takes beyond the tensor, which all slow clients share.
	slowClient = 1
	// besideFactor and besideMore bound the median time of another client's step while clients are slow: a factor, and the time that two
	// cores need for a scheduling round.
	besideFactor, besideMore = 3, 2 * time.Millisecond
)

// TestSlowClients checks that clients that read or send a byte a second, one of them or a hundred, do not delay others and cost little
// memory. When they go on at full speed, they are served.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	withoutRace(t)
	c := newCluster(t, "ps=1,worker=1")
	k, ctx := c.task("worker", 0), patient(t)
	nodes := append(variableOf("v", "/job:worker", slowBytes/4), on(node("here", "NoOp", 0), "/job:worker"), on(node("there", "NoOp", 0), "/job:ps"),
		placeholder("x", "/job:worker", float), on(node("y", "Neg", float, "x"), "/job:worker"))
	s := openSession(t, clientOf(t, k), graphOf(nodes...))
	if _, err := s.Run(ctx, nil, nil, []string{"v_set"}); err != nil {
		t.Fatal(err)
	}
	before := latencies(ctx, t, s)

	counts := []int{1, 100}
	if !extent.Check() {
		counts = counts[1:]
	}
	for _, row := range []struct {
		name    string
		window  uint32
		receive int // the client's receive buffer in the kernel, in bytes
		begin   func(r *rawClient, session string) error
		slowly  func(r *rawClient) error // each second
		finish  func(r *rawClient) error
	}{
		{"a window of a byte a second", 1, 0, (*rawClient).askForV, (*rawClient).widen, (*rawClient).takeV},
		{"a read of a byte a second", 1 << 29, 128 << 10, (*rawClient).askForV, (*rawClient).trickle, (*rawClient).takeV},
		{"a feed of a byte a second", 1, 0, (*rawClient).claimX, (*rawClient).drip, (*rawClient).unanswered},
	} {
		for _, n := range counts {
			t.Run(fmt.Sprintf("%s, clients %d", row.name, n), func(t *testing.T) {
				ctx := patient(t)
				k.proc.forgetPeak(t)
				end, ended := make(chan struct{}), make(chan error, n)
				for i := range n {
					r := rawDial(t, k.addr, row.window, row.receive)
					if err := row.begin(r, s.Handle()); err != nil {
						t.Fatal(err)
					}
					go func() {
						defer r.conn.Close()
						err := eachSecond(end, func() error { return row.slowly(r) })
						if err == nil && i == 0 {
							err = row.finish(r)
						}
						ended <- err
					}()
				}
				during := latencies(ctx, t, s)
				whole(ctx, t, s)
				feeds(ctx, t, s)
				for _, target := range []string{"here", "there"} {
					t.Logf("a step on %s: %v at the median, %v beside %d slow clients", target, before[target], during[target], n)
					if during[target] > besideFactor*before[target]+besideMore {
						t.Errorf("a step on %s takes %v beside %d slow clients, %v without", target, during[target], n, before[target])
					}
				}
				k.within(t, float64(slowBytes/mebibyte+allowance+n*slowClient))
				close(end)
				for range n {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestSlowStream checks that an answer that a client does not read does not delay others on the same connection.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	const size = 4 * mebibyte
	c := newCluster(t, "worker=1")
	k, ctx := c.task("worker", 0), patient(t)
	s := openSession(t, clientOf(t, k), graphOf(append(variableOf("v", "/job:worker", size/4), two())...))
	if _, err := s.Run(ctx, nil, nil, []string{"v_set"}); err != nil {
		t.Fatal(err)
	}
	r := rawDial(t, k.addr, 1024, 0)
	if err := r.askForV(s.Handle()); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := r.call("RunStep", &corepb.RunStepRequest{SessionHandle: s.Handle(), Fetch: []string{"two:0"}}); err != nil {
			t.Fatal(err)
		}
		err := r.answers(1, extent.Slack(5*time.Second), func(message []byte) error {
			if len(message) > 100 {
				return fmt.Errorf("%d bytes came", len(message))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.open[1]); n != 1024 {
		t.Errorf("%d bytes of the large answer came, not the window's", n)
	}
	if err := r.takeRest(size); err != nil {
		t.Error(err)
	}
}

// TestClaimedFeeds checks that feeds that clients announce but do not send leave room for those of other clients.
func TestClaimedFeeds(t *testing.T) {
	t.Parallel()
	withoutRace(t)
	c := newCluster(t, "worker=1")
	k, ctx := c.task("worker", 0), patient(t)
	s := openSession(t, clientOf(t, k), graphOf(placeholder("x", "/job:worker", float), on(node("y", "Neg", float, "x"), "/job:worker")))
	feeds(ctx, t, s)
	k.proc.forgetPeak(t)
	claims := make([]*rawClient, 100)
	for i := range claims {
		r := rawDial(t, k.addr, 1<<20, 0)
		claims[i] = r
		if err := r.claim(s.Handle(), 2000*mebibyte); err != nil {
			t.Fatal(err)
		}
		if err := r.drip(); err != nil {
			t.Fatal(err)
		}
	}
	feeds(ctx, t, s)
	k.within(t, allowance+float64(len(claims)*slowClient))
	for _, r := range claims {
		if err := r.unanswered(); err != nil {
			t.Error(err)
		}
	}
}

// eachSecond does something each second until end is closed or it fails.
func eachSecond(end <-chan struct{}, do func() error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return nil
		case <-tick.C:
			if err := do(); err != nil {
				return err
			}
		}
	}
}

// askForV requests the variable.
func (r *rawClient) askForV(session string) error {
	_, err := r.call("RunStep", &corepb.RunStepRequest{SessionHandle: session, Fetch: []string{"v_read:0"}})
	return err
}

// widen reads all input, which keeps the connection alive, and allows the server to send one more byte.
func (r *rawClient) widen() error {
	if err := r.whatCame(); err != nil {
		return err
	}
	return r.framer.WriteWindowUpdate(1, 1)
}

// whatCame reads all input, which must not end the call.
func (r *rawClient) whatCame() error {
	for {
		if err := r.conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			return err
		}
		_, _, ended, err := r.next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil || ended {
			return fmt.Errorf("a slow client was answered: %w", err)
		}
	}
}

// trickle reads a byte.
func (r *rawClient) trickle() error {
	var one [1]byte
	_, err := r.conn.Read(one[:])
	r.early.Write(one[:])
	return err
}

// takeV reads the rest of the variable at full speed. The rest must be long, since little was read before.
func (r *rawClient) takeV() error { return r.takeRest(slowBytes) }

func (r *rawClient) takeRest(bytes int) error {
	if n := len(r.open[1]); n > 1024 {
		return fmt.Errorf("a slow client got %d bytes", n)
	}
	if err := errors.Join(r.framer.WriteWindowUpdate(1, 1<<30), r.conn.(*net.TCPConn).SetReadBuffer(1<<20)); err != nil {
		return err
	}
	return r.answers(1, extent.Slack(limitTime), func(message []byte) error {
		if len(message) < bytes {
			return fmt.Errorf("%d bytes came", len(message))
		}
		return nil
	})
}

// claimX begins a feed of slowBytes.
func (r *rawClient) claimX(session string) error { return r.claim(session, slowBytes) }

// claim begins a feed of the given size.
func (r *rawClient) claim(session string, bytes uint32) error {
	message, err := claimedFeed(session, bytes)
	if err == nil {
		_, err = r.begin("RunStep")
	}
	if err != nil {
		return err
	}
	return r.framer.WriteData(1, false, message)
}

// drip sends a byte of the feed.
func (r *rawClient) drip() error { return r.framer.WriteData(1, false, []byte{1}) }

// unanswered checks that the call is still open.
func (r *rawClient) unanswered() error { return r.whatCame() }

// latencies returns the median times of no-op steps on the master's task and on another, measured for two seconds.
func latencies(ctx context.Context, t testing.TB, s *client.Session) map[string]time.Duration {
	t.Helper()
	took := map[string][]time.Duration{}
	for begun := time.Now(); time.Since(begun) < 2*time.Second; {
		for _, target := range []string{"here", "there"} {
			now := time.Now()
			if _, err := s.Run(ctx, nil, nil, []string{target}); err != nil {
				t.Fatal(err)
			}
			took[target] = append(took[target], time.Since(now))
		}
	}
	return map[string]time.Duration{"here": median(took["here"]), "there": median(took["there"])}
}

// feeds checks that a client that sends at full speed is served.
func feeds(ctx context.Context, t testing.TB, s *client.Session) {
	t.Helper()
	x, err := tensor.Zeros(tensor.Host, tensor.Float32, tensor.Shape{mebibyte})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	out, err := s.Run(ctx, map[string]*tensor.Tensor{"x:0": x}, []string{"y:0"}, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer out[0].Release()
	if out[0].Len() != mebibyte {
		t.Errorf("%d elements came", out[0].Len())
	}
}

// whole checks that a client that reads is served beside the slow ones.
func whole(ctx context.Context, t testing.TB, s *client.Session) {
	t.Helper()
	out, err := s.Run(ctx, nil, []string{"v_read:0"}, nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer out[0].Release()
	if out[0].Len() != slowBytes/4 {
		t.Errorf("%d elements came", out[0].Len())
	}
	for i, v := range tensor.Of[float32](out[0]) {
		if v != 1 {
			t.Errorf("element %d is %v", i, v)
			return
		}
	}
}
