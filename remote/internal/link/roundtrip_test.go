package link

import (
	"testing"
	"time"
)

// TestRoundTrip checks that both ends of a link measure the round trips of its heartbeats, repeatedly.
func TestRoundTrip(t *testing.T) {
	s := testSpec(t, 2)
	a, b := startNode(t, s, 0, ""), startNode(t, s, 1, "")
	if _, err := a.Ensure(within(t, patience), task1); err != nil {
		t.Fatal(err)
	}
	for n, other := range map[*node]string{a: task1, b: task0} {
		// Measurements on a busy machine differ, in nanoseconds.
		measured := map[time.Duration]bool{}
		tick := time.NewTicker(quick.Beat)
		defer tick.Stop()
		for end := time.Now().Add(patience); len(measured) < 3; <-tick.C {
			st, err := n.State(other)
			if err != nil {
				t.Fatal(err)
			}
			if st.RoundTrip < 0 || st.RoundTrip > quick.Silence {
				t.Fatalf("%s: a round trip of %v", other, st.RoundTrip)
			}
			if st.RoundTrip > 0 {
				measured[st.RoundTrip] = true
			}
			if time.Now().After(end) {
				t.Fatalf("%s: round trips %v within %v", other, measured, patience)
			}
		}
	}
}
