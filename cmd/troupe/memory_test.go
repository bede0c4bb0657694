package main

import "testing"

func TestGarbageByWhatIsAlive(t *testing.T) {
	for live, want := range map[uint64]int{0: mostPercent, 1 << 20: mostPercent, 8 << 20: 200, 32 << 20: 50, 1 << 30: leastPercent, 1 << 50: leastPercent} {
		if got := percentFor(live); got != want {
			t.Errorf("%d bytes alive: %d %%, not %d", live, got, want)
		}
	}
}

func TestMemoryIsReturnedAtRest(t *testing.T) {
	var k keeper
	for i, look := range []struct {
		dropped int64
		heap    heap
		want    bool
		why     string
	}{
		{0, heap{allocated: 10 << 20}, false, "the process works"},
		{0, heap{allocated: 30 << 20, free: 40 << 20}, false, "the process still works"},
		{1 << 20, heap{allocated: 50 << 20}, true, "a pool let go of memory"},
		{0, heap{allocated: 50 << 20, free: 40 << 20}, true, "the process rests"},
		{0, heap{allocated: 50 << 20, free: 40 << 20}, false, "it was done since the process rests"},
		{0, heap{allocated: 60 << 20, free: 1 << 20}, false, "the process works again"},
		{0, heap{allocated: 60 << 20, free: 1 << 20, dead: 1 << 20}, false, "there is too little to return"},
		{0, heap{allocated: 60 << 20, free: 9 << 20}, false, "it was looked at in this rest"},
	} {
		if got := k.due(look.dropped, look.heap); got != look.want {
			t.Errorf("look %d, %s: %v", i, look.why, got)
		}
	}
}
