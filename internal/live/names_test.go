package live

import (
	"runtime"
	"testing"
)

// Pointers are found by their names while something refers to them, and then nothing is left of them.
func TestNames(t *testing.T) {
	var n Names
	first, second := new(member), new(member)
	Put(&n, "first", first)
	Put(&n, "second", second)
	if n.Get("first") != first || n.Get("second") != second || n.Get("third") != nil {
		t.Error("another pointer is found")
	}
	runtime.KeepAlive(first)
	left := func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.find)
	}
	for range 10_000 {
		if left() == 1 {
			break
		}
		runtime.GC()
		runtime.Gosched()
	}
	if left() != 1 || n.Get("first") != nil || n.Get("second") != second {
		t.Errorf("%d names are left", left())
	}
	runtime.KeepAlive(second)
}
