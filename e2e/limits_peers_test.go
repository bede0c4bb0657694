//go:build unix

package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

const (
	// A frozen task is noticed by its silence. A live task that does not read is noticed only after its input has not moved for much
	// longer, since it may just be busy.
	silent, stuck = 7 * time.Second, 40 * time.Second
	// senders is how many steps send a tensor to that task concurrently.
	senders = 4
	sent    = 64 * mebibyte // by each
)

// TestFrozenReceiver freezes a task to which tensors are in flight. The steps that send them fail within a bounded time and memory, and
// other steps are not affected.
func TestFrozenReceiver(t *testing.T) {
	t.Parallel()
	withoutRace(t)
	c := newCluster(t, "ps=1,worker=2")
	ps := c.task("ps", 0)
	s := stalled(t, c, silent, func() { ps.proc.freeze() })
	ps.proc.signal(syscall.SIGCONT)
	sendsAgain(t, s)
}

// TestStalledConnection does the same with a connection for tensors that stalls while the task is well: its heartbeats go on.
func TestStalledConnection(t *testing.T) {
	t.Parallel() // it waits more than it computes
	withoutRace(t)
	if !extent.Check() {
		t.Skip("it takes half a minute until the connection is given up")
	}
	c := declare(t, "ps=1,worker=2")
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.attachLogs(t)
	})
	ps := c.task("ps", 0)
	behind := spectest.Address(t)
	ps.flags = []string{"--bind", behind}
	p := newProxyAt(t, ps.addr, behind)
	for _, k := range c.tasks {
		c.start(t, k)
	}
	c.ready(t)
	s := stalled(t, c, stuck, func() {
		if bytes := p.freeze(); bytes < sent {
			t.Errorf("the busiest connection has carried %d bytes", bytes)
		}
	})
	sendsAgain(t, s)
}

// stalled runs steps of the first worker that send to the ps, which stops reading in the middle. The steps must fail within the time
// noticed.
func stalled(t *testing.T, c *cluster, noticed time.Duration, stop func()) *client.Session {
	t.Helper()
	const here = "/job:worker/task:0"
	k, ps, ctx := c.task("worker", 0), c.task("ps", 0), patient(t)
	nodes := append(variableOf("v", here, sent/4), on(node("own", "Neg", float, "v_read"), here),
		on(with(node("size", "Size", float, "own"), "out_type", dtypeAttr(int64T)), "/job:ps"),
		on(node("here", "NoOp", 0), here), on(node("there", "NoOp", 0), "/job:worker/task:1"))
	s := openSession(t, clientOf(t, k), graphOf(nodes...))
	if _, err := s.Run(ctx, nil, nil, []string{"v_set"}); err != nil {
		t.Fatal(err)
	}
	before := latencies(ctx, t, s)

	flows, failed := make(chan struct{}, senders), make(chan error, senders)
	for range senders {
		go func() {
			for i := 0; ; i++ {
				if _, err := runInt64(ctx, s, nil, "size:0"); err != nil {
					failed <- err
					return
				}
				if i == 1 {
					flows <- struct{}{}
				}
			}
		}()
	}
	for range senders {
		select {
		case <-flows:
		case err := <-failed:
			t.Fatal(err)
		}
	}
	stop()
	stopped := time.Now()
	during := latencies(ctx, t, s)
	for range senders {
		err := <-failed
		took := time.Since(stopped)
		if status.CodeOf(err) != status.Unavailable {
			t.Errorf("a step that sends gave %v: %v", status.CodeOf(err), err)
			continue
		}
		contains(t, "the error of a step that sends", err.Error(), ps.name(), ps.addr)
		t.Logf("UNAVAILABLE at most %v after the stop: %v", took.Round(time.Millisecond), err)
		if took > noticed {
			t.Errorf("it came after %v, more than %v", took, noticed)
		}
	}
	for _, target := range []string{"here", "there"} {
		t.Logf("a step on %s: %v at the median, %v beside", target, before[target], during[target])
		if during[target] > besideFactor*before[target]+besideMore {
			t.Errorf("a step on %s takes %v beside, %v without", target, during[target], before[target])
		}
	}
	// The variable, and what each of the steps sends.
	k.within(t, float64((1+senders)*sent/mebibyte+allowance))
	return s
}

// sendsAgain waits until a step that sends to the ps works.
func sendsAgain(t *testing.T, s *client.Session) {
	t.Helper()
	eventually(t, 10*time.Second, "a step sends to the task again", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(5*time.Second))
		defer cancel()
		n, err := runInt64(ctx, s, nil, "size:0")
		if err == nil && n != sent/4 {
			err = fmt.Errorf("%d elements came", n)
		}
		return err
	})
}
