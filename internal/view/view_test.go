package view

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestEventsKeepTheLatest(t *testing.T) {
	var e Events
	if got, others := e.After(0, 10); got != nil || others != 0 {
		t.Errorf("an empty log has %v and %d others", got, others)
	}
	const n = MaxEvents + 10
	for i := range n {
		e.Add("kind", fmt.Sprint(i+1), "")
	}
	got, others := e.After(0, n)
	if len(got) != MaxEvents || others != 0 {
		t.Fatalf("%d events and %d others", len(got), others)
	}
	for i, ev := range got {
		if want := uint64(11 + i); ev.Number != want || ev.Subject != fmt.Sprint(want) {
			t.Fatalf("event %d has number %d and subject %s", i, ev.Number, ev.Subject)
		}
	}
	if got, others = e.After(n-5, 3); len(got) != 3 || others != 2 || got[2].Number != n {
		t.Errorf("after %d: %v, %d others", n-5, got, others)
	}
	if got, _ = e.After(n, 3); got != nil {
		t.Errorf("after the last one there are %v", got)
	}
	(*Events)(nil).Add("kind", "", "")
}

func TestDurations(t *testing.T) {
	var d Durations
	for _, took := range []time.Duration{-1, 0, 1, 16 * time.Microsecond, 16*time.Microsecond + 1, 32 * time.Microsecond, time.Second, 100 * time.Hour} {
		d.Add(took, 1)
	}
	h := d.Histogram()
	for i, want := range map[int]int64{0: 4, 1: 2, 16: 1, buckets: 1} {
		if h.Counts[i] != want {
			bound, _ := BucketBound(i)
			t.Errorf("%d durations up to %v, not %d", h.Counts[i], bound, want)
		}
	}
	if h.Count() != 8 {
		t.Errorf("%d durations, not 8", h.Count())
	}
	if got := h.Quantile(0.5); got != 16*time.Microsecond {
		t.Errorf("the median is %v", got)
	}
	if got := h.Quantile(0.75); got != 32*time.Microsecond {
		t.Errorf("three quarters end by %v", got)
	}
	if got := (&Histogram{}).Quantile(0.9); got != 0 {
		t.Errorf("no durations end by %v", got)
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"one\ntwo": "one",
		"From /job:ps/replica:0/task:0:\nno such node\n\t [[x]]": "From /job:ps/replica:0/task:0: no such node",
		"From /job:ps/replica:0/task:0:":                         "From /job:ps/replica:0/task:0:",
		"a\xff":                                                  "a�",
		strings.Repeat("x", 2*maxLine):                           strings.Repeat("x", maxLine) + "…",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
