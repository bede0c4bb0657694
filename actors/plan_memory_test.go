package actors

import (
	"fmt"
	"strings"
	"testing"

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
