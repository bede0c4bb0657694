package view

import (
	"fmt"
	"slices"
	"testing"
)

// TestLanes checks that an event takes the first lane of its name that is free, and that a name has a bounded number of lanes.
func TestLanes(t *testing.T) {
	event := func(begin, duration int64) *TraceEvent {
		return &TraceEvent{Kind: StepEvent, Name: fmt.Sprint(begin), Begin: begin, Duration: duration}
	}
	var got []string
	for _, l := range Lanes([]*TraceEvent{event(0, 10), event(1, 2), event(3, 7), event(10, 5), event(11, 5), event(12, 5)}) {
		text := fmt.Sprint(l.Name, " ", l.Number, ":")
		for _, e := range l.Events {
			text += " " + e.Name
		}
		got = append(got, text)
	}
	if want := []string{"steps 0: 0 10", "steps 1: 1 3 11", "steps 2: 12"}; !slices.Equal(got, want) {
		t.Errorf("the lanes are %q, want %q", got, want)
	}
	var many []*TraceEvent
	for i := range int64(maxLanes + 2) {
		many = append(many, event(i, 1000))
	}
	if all := Lanes(many); len(all) != maxLanes || len(all[maxLanes-1].Events) != 3 {
		t.Errorf("%d events at a time have %d lanes, and the last one has %d events", len(many), len(all), len(all[len(all)-1].Events))
	}
}
