package cast

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/internal/placement"
	"github.com/troupe-run/troupe/actors/wire"
)

// TestPlacementsWait checks that few messages wait for a task that takes none: the latest, in order.
func TestPlacementsWait(t *testing.T) {
	p := &placer{unsent: map[string][]*wire.Placement{"b": nil}} // one is in flight
	var all []*wire.Placement
	for range maxUnsent + 2 {
		all = append(all, &wire.Placement{})
		p.send("b", all[len(all)-1])
	}
	if got := p.unsent["b"]; !slices.Equal(got, all[2:]) {
		t.Errorf("%d messages wait, want the last %d of %d", len(got), maxUnsent, len(all))
	}
}

// TestHandOverIsBounded checks that actors that do not return do not keep a view from coming into effect for longer
// than handOver.
func TestHandOverIsBounded(t *testing.T) {
	for _, over := range []bool{false, true} {
		core := placement.New(placement.Config{Self: "a", Tasks: []string{"a"}})
		p := &placer{cast: &Cast{log: slog.New(slog.DiscardHandler)}, core: core, born: time.Now(),
			prepares: placement.Epoch{Term: 1, Number: 1}}
		if over {
			p.born = p.born.Add(-handOver)
		}
		p.hurry()
		if waits := p.prepares != (placement.Epoch{}); waits == over {
			t.Errorf("the time is over: %v, the view waits: %v", over, waits)
		}
	}
}

// TestActorsMoveOnce checks that an actor counts as one that moves once, however many views move it, and not when it
// has ended.
func TestActorsMoveOnce(t *testing.T) {
	a := &performer{}
	if first, second := a.move(), a.move(); !first || second {
		t.Errorf("an actor moves: %v, and again: %v", first, second)
	}
	if (&performer{closed: true}).move() {
		t.Error("an actor that has ended moves")
	}
}
