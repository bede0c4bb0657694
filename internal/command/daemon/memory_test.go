package daemon

import (
	"math/bits"
	"testing"
)

func TestGarbageByWhatIsAlive(t *testing.T) {
	for live, want := range map[uint64]int{0: mostPercent, 1 << 20: mostPercent, 8 << 20: 200, 32 << 20: 50, 1 << 30: leastPercent, 1 << 50: leastPercent} {
		if got := percentFor(live); got != want {
			t.Errorf("%d bytes alive: %d %%, not %d", live, got, want)
		}
	}
}

func TestMemoryIsReturnedAtRest(t *testing.T) {
	type look struct {
		dropped int64
		heap    heap
		want    bool
		why     string
	}
	looks := []look{
		{0, heap{allocated: 10 << 20}, false, "the process works"},
		{0, heap{allocated: 30 << 20, free: 40 << 20}, false, "the process still works"},
		{1 << 20, heap{allocated: 50 << 20}, true, "a pool let go of memory"},
		{0, heap{allocated: 50 << 20, free: 40 << 20}, true, "the process rests"},
		{0, heap{allocated: 60 << 20, free: 1 << 20}, false, "the process works again"},
	}
	for i := 1; i <= 64; i++ {
		why := "there is too little to return"
		if i > 1 {
			why = "a long rest is looked at ever more rarely"
		}
		looks = append(looks, look{0, heap{allocated: 60 << 20, free: 1 << 20}, i > 1 && bits.OnesCount(uint(i)) == 1, why})
	}
	looks = append(looks, look{0, heap{allocated: 70 << 20}, false, "the rest is over"}, look{0, heap{allocated: 70 << 20, free: 9 << 20}, true, "another rest"})
	var k keeper
	for i, l := range looks {
		if got := k.due(l.dropped, l.heap); got != l.want {
			t.Errorf("look %d, %s: %v", i, l.why, got)
		}
	}
}
