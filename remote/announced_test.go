package remote

import (
	"testing"

	"github.com/troupe-run/troupe/remote/internal/link"
	"github.com/troupe-run/troupe/remote/internal/membership"
)

// TestAnnouncedEnds checks which losses count as announced, whether gossip or the link learned of the goodbye, and which came first.
func TestAnnouncedEnds(t *testing.T) {
	up, leaving := TaskStatus{State: stateUp, Boot: 1}, TaskStatus{State: stateUp, Boot: 1, Reason: "it is leaving"}
	down := func(boot uint64, reason string) TaskStatus {
		return TaskStatus{State: stateDown, Boot: boot, Reason: reason}
	}
	const broken = "the connection was reset"
	for _, c := range []struct {
		before, now TaskStatus
		want        bool
	}{
		{up, down(1, broken), false},
		{up, down(1, ""), false},
		{up, down(1, membership.HasLeft), true},
		{up, down(1, link.Leaving+": its server is stopping"), true},
		{leaving, down(1, broken), true},
		{leaving, down(2, broken), false}, // the next process of the task
		{TaskStatus{}, down(1, broken), false},
	} {
		if got := announced(c.before, c.now); got != c.want {
			t.Errorf("after %+v, %+v is announced: %v", c.before, c.now, got)
		}
	}
}
