package actors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
)

// TestHomesAreBounded checks that names which clients make up take bounded memory of a directory, that no client's names use up the room of
// another's, however many containers it has, and that a reset makes room.
func TestHomesAreBounded(t *testing.T) {
	n := newNetwork(t, "a").node(taskName("a"))
	const limit = 1 << 20
	d := newDirectory(n.task, limit)
	long := strings.Repeat("x", 1000)
	fill := func(client, container string) (count int, err error) {
		for ; ; count++ {
			r := &wire.Resource{Container: container, Kind: "VarHandleOp", Name: fmt.Sprint(long, client, count), Device: n.name + "/device:CPU:0", Claimer: n.name, Client: client}
			if err := d.room(nameOf(r), homeOf(r)); err != nil {
				return count, err
			}
			d.keep(nameOf(r), homeOf(r))
			d.keep(nameOf(r), homeOf(r)) // again
		}
	}
	took := func(who string, count, most int) {
		t.Helper()
		if most /= len(long); count > most || count < most/2 {
			t.Errorf("%s takes %d names, of at most %d", who, count, most)
		}
	}
	first, err := fill("alice", "mine")
	wantError(t, err, status.ResourceExhausted, "of the client alice, and its limit is 262144")
	took("alice", first, limit/4)
	for i := range 10 {
		if more, _ := fill("alice", fmt.Sprint("mine", i)); more > 1 {
			t.Errorf("with another container, alice takes %d more names", more)
		}
	}
	second, err := fill("bob", "mine")
	wantError(t, err, status.ResourceExhausted, "of the client bob")
	took("bob", second, limit/8)
	third, err := fill("", "ours")
	wantError(t, err, status.ResourceExhausted, `of the container "ours", and its limit is 262144`)
	took("a container of others", third, limit/4)
	fourth, _ := fill("", "theirs")
	took("another container", fourth, limit/8)
	for i := range 100 {
		_, _ = fill(fmt.Sprint("client", i), "many")
		_, _ = fill("", fmt.Sprint("container", i))
	}
	if h := d.holdings; h.told > limit/2 || h.other > limit/2 {
		t.Errorf("%d and %d bytes are taken", h.told, h.other)
	}
	all := map[string]bool{}
	for name := range d.homes {
		all[name.container] = true
	}
	d.forget([]string{"mine"})
	if again, _ := fill("bob", "ours too"); again < second {
		t.Errorf("after a reset, there is room for %d names", again)
	}
	d.forget(append(sortedKeys(all), "ours too"))
	if h := d.holdings; len(d.homes) != 0 || h.told != 0 || h.other != 0 || len(h.of) != 0 || len(n.task.shared.all()) != 0 {
		t.Errorf("%d homes are left, of %d and %d bytes and %d holders", len(d.homes), h.told, h.other, len(h.of))
	}
}

// TestHomesAfterAReset has a task that a reset did not reach, and that knows a home from before: it believes what was decided afterwards, and nobody
// believes it.
func TestHomesAfterAReset(t *testing.T) {
	net := newNetwork(t, "a", "b")
	n, other := net.node(taskName("a")), net.node(taskName("b"))
	reached, missed := newDirectory(n.task, 1<<20), newDirectory(other.task, 1<<20)
	at := func(task *node, moves uint64) *wire.Resource {
		return &wire.Resource{Kind: "VarHandleOp", Name: "x", Device: task.name + "/device:CPU:0", Claimer: n.name, Moves: moves}
	}
	for round := range 3 {
		was := reached.homes[nameOf(at(n, 0))].moves + 3 // it has moved three times
		for _, d := range []*directory{reached, missed} {
			d.note(&wire.Note{Resources: []*wire.Resource{at(other, was)}})
		}
		reached.forget([]string{""})
		reached.decide(&asking{&wire.Claim{Resources: []*wire.Resource{at(n, 0)}}, actor.NewPID(n.name, "nobody")}, nil)
		want := reached.homes[nameOf(at(n, 0))]
		if taskOf(want.device) != n.name {
			t.Fatalf("round %d: the home is %v", round, want)
		}
		reached.note(&wire.Note{Resources: []*wire.Resource{at(other, was+1)}}) // missed has handed it over, as it believes
		if got := reached.homes[nameOf(at(n, 0))]; got != want {
			t.Errorf("round %d: a home from before the reset took its place: %v", round, got)
		}
		missed.note(&wire.Note{Resources: []*wire.Resource{resourceAt(nameOf(at(n, 0)), want)}})
		if got := missed.homes[nameOf(at(n, 0))]; got != want {
			t.Errorf("round %d: the task that the reset did not reach keeps %v", round, got)
		}
	}
}
