package containers

import (
	"strings"
	"testing"
)

// Anonymous resources have names that cannot be guessed, by which those of the device are found.
func TestAnonymous(t *testing.T) {
	m := NewManager(nil, "/job:a/replica:0/task:0/device:CPU:0", "a")
	type resource struct{ value int }
	first, second := &resource{1}, &resource{2}
	one, two := NameAnonymous(m, "Var", first), NameAnonymous(m.For(nil), "Var", second)
	secret := func(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
	if !strings.HasPrefix(one, "Var-") || len(secret(one)) != 16 || secret(one) == secret(two) {
		t.Errorf("the names are %s and %s", one, two)
	}
	if m.For(nil).Anonymous(one) != first || m.Anonymous(two) != second {
		t.Error("another resource is found")
	}
	if other := NewManager(nil, m.device, "a"); other.Anonymous(one) != nil {
		t.Error("another device finds it")
	}
}
