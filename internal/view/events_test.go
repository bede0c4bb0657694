package view

import (
	"strings"
	"testing"
	"time"
)

// TestFlood checks that a flood of events is recorded in part, that the next one reports the omitted ones, and that other kinds are still
// recorded.
func TestFlood(t *testing.T) {
	var e Events
	for range 10 * someBurst {
		e.AddSome("refused", "x", "no")
	}
	e.AddSome("stalled", "y", "slow")
	events, _ := e.After(0, MaxEvents)
	if n := len(events); n < someBurst || n > someBurst+10 {
		t.Errorf("%d of %d events were noted", n, 10*someBurst)
	}
	if last := events[len(events)-1]; last.Kind != "stalled" || last.Text != "slow" {
		t.Errorf("an event of another kind: %v", last)
	}
	omitted, ok := e.admit("refused", time.Now().Add(time.Minute))
	if !ok || omitted < 8*someBurst {
		t.Errorf("a minute later: %v, after %d that were left out", ok, omitted)
	}
	e.floods["refused"] = &flood{tokens: 1, filled: time.Now(), omitted: 3}
	e.AddSome("refused", "x", "no")
	events, _ = e.After(0, MaxEvents)
	if last := events[len(events)-1]; !strings.HasSuffix(last.Text, "no (and 3 others that were left out)") {
		t.Errorf("%v", last)
	}
	var none *Events
	none.AddSome("refused", "x", "no") // does nothing
}

// TestEventsAreShort checks that a log keeps little of what clients send, however long their names are.
func TestEventsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	var e Events
	e.Add("reset", long, long)
	e.AddOf("client:a", "reset", long, long)
	e.AddSome("reset", long, long)
	events, _ := e.After(0, 10)
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	for _, ev := range events {
		if n := len(ev.Subject) + len(ev.Text); n > 4<<10 {
			t.Errorf("an event of %d bytes is kept", n)
		}
	}
}
