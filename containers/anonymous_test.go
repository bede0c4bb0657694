package containers

import (
	"runtime"
	"strings"
	"testing"
)

// Anonymous resources are found by their names while something refers to them, and then forgotten.
func TestAnonymous(t *testing.T) {
	m := NewManager(nil, "/job:a/replica:0/task:0/device:CPU:0", "a")
	type resource struct{ value int }
	first, second := &resource{1}, &resource{2}
	one, two := NameAnonymous(m, "Var", first), NameAnonymous(m.For(nil), "Var", second)
	if !strings.HasPrefix(one, "Var-") || one[strings.LastIndexByte(one, '-'):] == two[strings.LastIndexByte(two, '-'):] {
		t.Errorf("the names are %s and %s", one, two)
	}
	if m.For(nil).Anonymous(one) != first || m.Anonymous(two) != second {
		t.Error("another resource is found")
	}
	if other := NewManager(nil, m.device, "a"); other.Anonymous(one) != nil {
		t.Error("another device finds it")
	}
	runtime.KeepAlive(first)
	for range 10_000 {
		m.anonymous.mu.Lock()
		n := len(m.anonymous.find)
		m.anonymous.mu.Unlock()
		if n == 1 {
			break
		}
		runtime.GC()
		runtime.Gosched()
	}
	if m.Anonymous(one) != nil || m.Anonymous(two) != second {
		t.Error("not just the second is left")
	}
	runtime.KeepAlive(second)
}
