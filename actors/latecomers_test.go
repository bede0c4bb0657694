package actors

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
)

// A session that gets nothing but the end of a queue that was closed before it was opened is an event, and a line of the log, of the queue's
// task: once, wherever the session's master is.
func TestQueueMissed(t *testing.T) {
	for _, home := range []string{"a", "b"} {
		t.Run("on "+home, func(t *testing.T) {
			net := newNetwork(t, "a", "b")
			graph := strings.ReplaceAll(arithmetic+`
				q = FIFOQueueV2() @HERE shared_name="rows"
				take = QueueDequeueV2(q) @HERE
				put = QueueEnqueueV2(q, two) @HERE
				close = QueueCloseV2(q) @HERE cancel_pending_enqueues=false`, "HERE", home+"0")
			missed := func() (events []*view.Event) {
				all, _ := net.node(taskName(home)).task.Events.After(0, 1000)
				for _, e := range all {
					if e.Kind == "queue missed" {
						events = append(events, e)
					}
				}
				return events
			}
			first := open(t, net.node(taskName("a")), graph)
			early := open(t, net.node(taskName("a")), graph)
			first.run(request(nil, "!put"))
			first.run(request(nil, "!close"))
			first.run(request(nil, "take:0"), 2)
			ends := func(c *client) {
				t.Helper()
				if _, err := c.try(t.Context(), request(nil, "take:0")); status.CodeOf(err) != status.OutOfRange {
					t.Errorf("the end of the queue is %v", err)
				}
			}
			ends(first)
			ends(early)
			if got := missed(); len(got) > 0 {
				t.Errorf("of sessions of the same run it is said that %v", got)
			}
			late := open(t, net.node(taskName("a")), graph)
			for range 3 {
				ends(late)
			}
			got := missed()
			if len(got) != 1 || got[0].Subject != "rows" || !strings.Contains(got[0].Text, "session "+late.session.name()+" of "+taskName("a")) ||
				!strings.Contains(got[0].Text, "by session "+first.session.name()+" of "+taskName("a")) {
				t.Errorf("the events are %v", got)
			}
			if log := net.node(taskName(home)).log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "queue=rows") {
				t.Errorf("the log says %s", log)
			}
			var reasons []string
			for _, r := range view.Missed(&view.Cluster{Tasks: []*view.Task{net.node(taskName(home)).task.See(&view.Query{Sections: []string{"resources"}})}}) {
				reasons = append(reasons, r.Session+" "+r.Text)
			}
			if len(reasons) != 1 || !strings.HasPrefix(reasons[0], late.session.name()+" it got the end of the FIFOQueue 'rows' on "+taskName(home)) {
				t.Errorf("troupe why says %q", reasons)
			}
		})
	}
}
