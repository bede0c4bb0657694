package live

import (
	"runtime"
	"testing"
)

const many = 100_000

// member is too large for the allocator's blocks of several small objects, whose members stay alive together.
type member struct{ _ [64]byte }

// TestAddIsLinear adds many members, which stay, end at once or end by halves, and counts how many others are looked at meanwhile. The last
// case is that of a server with many sessions, of which one after another comes and goes.
func TestAddIsLinear(t *testing.T) {
	for _, test := range []struct {
		name         string
		stay         int // so many stay from the start
		then         int // so many more are added
		keep         bool
		collectEvery int
	}{
		{"all stay", 0, many, true, many},
		{"none stays", 0, many, false, many / 10},
		{"many stay, and others come and go", many / 2, many / 2, false, many / 20},
		{"few stay, and others come and go", 9, many, false, many / 10},
	} {
		var l List[member]
		var kept []*member
		for range test.stay {
			m := new(member)
			kept = append(kept, m)
			l.Add(m)
		}
		for i := range test.then {
			m := new(member)
			if l.Add(m); test.keep {
				kept = append(kept, m)
			}
			if i%test.collectEvery == 0 {
				runtime.GC()
			}
		}
		if added := test.stay + test.then; l.scanned == 0 || l.scanned > 3*int64(added) {
			t.Errorf("%s: %d members were looked at for %d that were added", test.name, l.scanned, added)
		}
		runtime.GC()
		if n := len(l.All()); n != len(kept) {
			t.Errorf("%s: %d of %d members are left", test.name, n, len(kept))
		}
		runtime.KeepAlive(kept)
	}
}

// TestEndedMembersAreForgotten checks that a list of which one member is in use at a time stays short.
func TestEndedMembersAreForgotten(t *testing.T) {
	var l List[member]
	for range 100 {
		for range least {
			l.Add(new(member))
		}
		runtime.GC()
	}
	if n := len(l.all); n > 3*least {
		t.Errorf("the list has %d entries of members that ended", n)
	}
}
