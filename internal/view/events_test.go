package view

import (
	"strings"
	"testing"
	"time"
)

// TestFlood holds that events which come in a flood are noted in part, and that the next one tells of the others; and that
// other kinds are noted all the same.
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
	none.AddSome("refused", "x", "no") // is nobody's
}
