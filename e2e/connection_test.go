//go:build unix

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/internal/extent"
)

// TestBrokenConnections runs the functions of faults/connection.py, during which the connection breaks.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=1")
	for _, function := range functionsOf(t, "faults/connection.py") {
		t.Run(strings.TrimPrefix(function, "test_"), func(t *testing.T) {
			p := newProxy(t, c.task("worker", 0).addr)
			targets := maps.Clone(c.targets())
			targets["proxy:0"] = p.target()
			d := drivers.borrow(t)
			d.act = func(what, _ string) error {
				switch what {
				case "hold":
					p.hold()
				case "cut":
					p.cut()
				default:
					return fmt.Errorf("nobody knows how to %s a proxy", what)
				}
				return nil
			}
			d.must(t, request{Case: "faults/connection.py", Function: function, Name: function, Targets: targets}, caseTime)
		})
	}
}

// TestVanishedClient kills a client in the middle of a step: the step ends, its session ends with the lease, and the memory is returned.
func TestVanishedClient(t *testing.T) {
	t.Parallel()
	needPython(t)
	c := newCluster(t, "ps=1,worker=1", "--lease", "1s")
	ps := c.task("ps", 0)
	before := ps.proc.residentMiB(t)

	d := drivers.borrow(t)
	d.act = func(string, string) error {
		d.proc.kill()
		return nil
	}
	q := request{Case: "faults/vanishing.py", Function: "test_vanish", Name: "vanishing", Targets: c.targets()}
	if a, err := d.do(q, caseTime); err == nil {
		t.Fatalf("the client lives: %v", a.err())
	} else if d.proc.running() {
		t.Fatal(err)
	}
	full := ps.proc.residentMiB(t)
	if full < before+150 {
		t.Errorf("the session's queue takes %.0f MiB, there were %.0f MiB before", full, before)
	}
	eventually(t, 20*time.Second, "the memory comes back", func() error {
		if now := ps.proc.residentMiB(t); now > before+40 {
			return fmt.Errorf("%.0f MiB, %.0f MiB before the client came, %.0f MiB with it", now, before, full)
		}
		return nil
	})
	q.Function = "test_what_is_left"
	drivers.borrow(t).must(t, q, caseTime)
}

// TestAbandonedSessions checks that many sessions whose clients vanished leave memory use unchanged.
func TestAbandonedSessions(t *testing.T) {
	t.Parallel()
	if extent.RaceDetector {
		t.Skip("memory under the race detector says nothing about memory without it")
	}
	sessions, first := 100, 100
	switch {
	case extent.Full():
		sessions, first = 10_000, 1000
	case extent.Check():
		sessions, first = 300, 300
	}
	c := newCluster(t, "ps=1,worker=1", "--lease", "1s")
	k := c.task("worker", 0)
	g := graphOf(two(), constant("many", float, floats([]int64{1000}, 1)),
		with(node("x", "Placeholder", 0), "dtype", dtypeAttr(float)),
		on(node("there", "AddV2", float, "many", "x"), "/job:ps"), node("end", "Mul", float, "there", "two"))

	abandon := func(n int) {
		t.Helper()
		for range n {
			m, err := dial(k.addr)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), extent.Slack(10*time.Second))
			s, err := m.createSession(ctx, g)
			if err == nil {
				_, err = m.step(ctx, s, map[string]*tensorpb.TensorProto{"x:0": floats(nil, 3)}, "end:0")
			}
			cancel()
			m.close()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	memory := func() float64 { return k.proc.residentMiB(t) + c.task("ps", 0).proc.residentMiB(t) }

	abandon(first) // the first round fills pools and loads code, and opens connections
	settled := settle(t, memory)
	abandon(sessions)
	peak := memory()
	var now float64
	eventually(t, 60*time.Second, "the memory comes back", func() error {
		if now = memory(); now > settled*1.10 {
			return fmt.Errorf("%.1f MiB, %.1f MiB before %d sessions, at most %.1f MiB with them", now, settled, sessions, peak)
		}
		return nil
	})
	t.Logf("%.1f MiB before, %.1f MiB with %d sessions, %.1f MiB after", settled, peak, sessions, now)
	works(t, masterOf(t, k))
}

// settle waits until a figure has not fallen for a while, and returns it.
func settle(t *testing.T, figure func() float64) float64 {
	t.Helper()
	least, since := figure(), time.Now()
	eventually(t, 60*time.Second, "the memory settles", func() error {
		if now := figure(); now < least*0.99 {
			least, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < 5*time.Second {
			return fmt.Errorf("%.1f MiB for %v", least, quiet)
		}
		return nil
	})
	return least
}
