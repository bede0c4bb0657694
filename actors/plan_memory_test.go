package actors

import (
	"fmt"
	"strings"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestGraphsAndPlansAreCounted checks that a session's graph and its plans count as its memory on each task that has them, that plans make room for
// others, and that nothing stays counted.
func TestGraphsAndPlansAreCounted(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	const nodes, limit = 1000, 4 << 20
	var text, all strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "n%d = NoOp() @%c0\n", i, "ab"[i%2])
		fmt.Fprintf(&all, ", ^n%d", i)
	}
	fmt.Fprintf(&text, "all = NoOp(%s)\n", all.String()[2:])
	c := openAs(t, a, Rights{SessionBytes: limit}, text.String(), nil)
	run := func(c *client, i int) error {
		_, err := c.try(t.Context(), request(nil, "!all", fmt.Sprint("!n", i)))
		return err
	}
	for i := range 40 { // they would take twice as much
		if err := run(c, i); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.session.worker.memory.InUse(); got < nodes*graphNode || got > limit {
		t.Errorf("the session takes %d bytes", got)
	}
	there := b.task.session(c.session.handle)
	if got, all := there.memory.InUse(), len(there.plans); got < int64(all)*nodes/2*planNode {
		t.Errorf("%d plans take %d bytes on the other task", all, got)
	}
	c.close()
	for _, s := range []*workerSession{c.session.worker, there} {
		until(t, "nothing of the session counts on "+s.task.name, func() bool { return s.memory.InUse() == 0 })
	}
	_, err := a.task.CreateSession(t.Context(), 0, Rights{SessionBytes: nodes * graphNode}, kernelstest.GraphDef(t, text.String()), nil)
	wantError(t, err, status.ResourceExhausted, "the session may hold 512000 bytes")
	small := openAs(t, a, Rights{SessionBytes: 3 * nodes * graphNode / 2}, text.String(), nil)
	wantError(t, run(small, 0), status.ResourceExhausted, "the session may hold 768000 bytes")
	small.close()
}

// TestPreparedStepsAreCounted checks that callables and partial runs count as memory of their session until they are released or have ended.
func TestPreparedStepsAreCounted(t *testing.T) {
	net := newNetwork(t, "a")
	const limit = 1 << 20
	c := openAs(t, net.node(taskName("a")), Rights{SessionBytes: limit}, "x = Placeholder()\ny = Neg(x)\n", nil)
	run := func() { c.run(request(map[string]int64{"x:0": 5}, "y:0"), -5) }
	run()
	names := make([]string, 900)
	for i := range names {
		names[i] = "y"
	}
	options := &corepb.CallableOptions{Feed: []string{"x:0"}, Target: names}
	for _, of := range []struct {
		what  string
		make  func() (handle string, err error)
		end   func(handle string)
		bytes int
	}{
		{"callables", func() (string, error) {
			h, err := c.session.MakeCallable(t.Context(), options)
			return fmt.Sprint(h), err
		}, func(handle string) {
			var h int64
			if _, err := fmt.Sscan(handle, &h); err != nil {
				t.Fatal(err)
			}
			c.session.ReleaseCallable(h)
			c.session.ReleaseCallable(h) // again
		}, 16 * len(names)},
		{"partial runs", func() (string, error) {
			return c.session.PartialSetup(t.Context(), []string{"x:0"}, []string{"y:0"}, names)
		}, func(handle string) {
			c.session.mu.Lock()
			pr := c.session.partials[handle]
			c.session.mu.Unlock()
			pr.step.fail(errClosed())
			<-pr.step.isDone()
			c.session.dropPartial(handle)
		}, partialBytes},
	} {
		handle, err := of.make() // it makes the plan, which stays
		if err != nil {
			t.Fatal(of.what, err)
		}
		of.end(handle)
		before := c.session.worker.memory.InUse()
		var all []string
		for err == nil && len(all) < limit/of.bytes {
			if handle, err = of.make(); err == nil {
				all = append(all, handle)
			}
		}
		wantError(t, err, status.ResourceExhausted, "the session may hold 1048576 bytes")
		for _, handle := range all {
			of.end(handle)
		}
		if got := c.session.worker.memory.InUse(); got > before {
			t.Errorf("%d %s leave %d bytes, there were %d before", len(all), of.what, got, before)
		}
		run()
	}
	c.close()
	if got := c.session.worker.memory.InUse(); got != 0 {
		t.Errorf("%d bytes are still counted", got)
	}
}
