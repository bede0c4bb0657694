package actorservice

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestPendingCallsAreBounded checks the limits of one client and of all, and that calls which have ended count no longer.
func TestPendingCallsAreBounded(t *testing.T) {
	c := calls{of: map[string]*load{}}
	var all []*pending
	enter := func(client string) *pending {
		t.Helper()
		p, err := c.enter(client)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		return p
	}
	refused := func(err error, want string) {
		t.Helper()
		if status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	clients := []string{"a", "b", "c", "d"}
	for _, client := range clients {
		for range maxClientCalls {
			enter(client)
		}
		_, err := c.enter(client)
		refused(err, "16384 calls of this client")
	}
	_, err := c.enter("e")
	refused(err, "65536 calls of clients")
	first := all[0] // of a
	first.leave()
	all = all[1:]
	_, err = c.enter("b")
	refused(err, "16384 calls of this client")
	other := enter("e")

	for i := range clients {
		p := all[i*maxClientCalls]
		if err := p.hold(maxClientBytes - 1); err != nil {
			t.Fatal(err)
		}
		refused(p.hold(2), "a request of 2 bytes about an actor is refused for now: the limit for those of a client that wait is 67108864 bytes, and 67108863 wait")
	}
	if err := other.hold(4); err != nil {
		t.Fatal(err)
	}
	refused(other.hold(1), "the limit for those of all clients that wait is 268435456 bytes, and 268435456 wait")
	for _, p := range all {
		p.leave()
	}
	if c.all != (load{}) || len(c.of) != 0 {
		t.Errorf("%v is left, of %v", c.all, c.of)
	}
}
