package samehost

import (
	"encoding/hex"
	"os"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestException: the exception permits as few readers as Yama can express.
func TestException(t *testing.T) {
	for _, c := range []struct {
		readers []int
		who     int
	}{
		{nil, nobody},
		{[]int{nobody, nobody}, nobody},
		{[]int{nobody, 7, nobody}, 7},
		{[]int{7, 7}, 7},
		{[]int{7, nobody, 8}, anybody},
		{[]int{7, 8, 7}, anybody},
	} {
		readers := map[*Advert]int{}
		for _, pid := range c.readers {
			readers[&Advert{}] = pid
		}
		if who := exception(readers); who != c.who {
			t.Errorf("readers %v: %d, want %d", c.readers, who, c.who)
		}
	}
}

func TestAllow(t *testing.T) {
	a, err := NewAdvert(toOwner)
	if err != nil {
		t.Fatal(err)
	}
	o := startOwner(t, ownerPlain, nil)
	self, err := hex.DecodeString(o.tell("self"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Allow(self); err != nil {
		t.Fatal(err)
	}
	reader := func() int {
		adverts.Lock()
		defer adverts.Unlock()
		return adverts.readers[a]
	}
	if got := reader(); got != o.cmd.Process.Pid {
		t.Errorf("process %d was let in instead of %d", got, o.cmd.Process.Pid)
	}
	if answer := o.tell("attach " + hex.EncodeToString(a.Bytes())); answer != "0 <nil>" {
		t.Errorf("the reader that was let in: %s", answer)
	}
	elsewhere := someClaim()
	want(t, "another machine", a.Allow(elsewhere.encode()), status.FailedPrecondition, "another machine")
	want(t, "nonsense", a.Allow(nil), status.InvalidArgument, "empty")
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "after Close", a.Allow(self), status.FailedPrecondition, "closed")
	if got := reader(); got != nobody {
		t.Errorf("process %d may read after Close", got)
	}
}

// own attaches this process's memory, as only tests do.
func own(t testing.TB, a *Advert, parties string) *Memory {
	t.Helper()
	m, err := attach(&a.claim, parties)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// advertise makes an offer that ends with the test.
func advertise(t testing.TB, parties string) *Advert {
	t.Helper()
	a, err := NewAdvert(parties)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestLend: a ticket is valid from Lend to Return, for what was lent with it.
func TestLend(t *testing.T) {
	a, data := advertise(t, toTest), pooled(1<<20)
	fill(data)
	m, dst := own(t, a, toTest), make([]byte, 4096)
	tickets := map[uint64]int{} // and where their ranges begin
	for range 3 {
		for i := range slots {
			ticket, ok := a.Lend(data[i : i+4096])
			if !ok {
				t.Fatalf("range %d cannot be lent", i)
			}
			tickets[ticket] = i
		}
		if len(tickets) != slots {
			t.Errorf("%d ranges have %d tickets", slots, len(tickets))
		}
		if ticket, ok := a.Lend(data); ok {
			t.Errorf("one more is lent with %#x", ticket)
		}
		for ticket, i := range tickets {
			if err := m.Read(dst, ticket); err != nil || string(dst) != string(data[i:i+4096]) {
				t.Fatalf("range %d: not what is there, %v", i, err)
			}
			a.Return(ticket)
			a.Return(ticket)
			want(t, "a returned range", m.Read(dst, ticket), status.InvalidArgument, "has not lent")
		}
		clear(tickets)
	}
	if _, ok := a.Lend(nil); ok {
		t.Error("nothing is lent")
	}
	for _, ticket := range []uint64{0, 1, slots << addressBits, 1<<64 - 1} {
		a.Return(ticket)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Lend(data); ok {
		t.Error("a closed advert lends")
	}
	a.Return(addressOf(data))
}

// TestLendAllocatesNothing: lending must not cost a step an allocation.
func TestLendAllocatesNothing(t *testing.T) {
	a, data, dst := advertise(t, toTest), pooled(4096), make([]byte, 4096)
	m := own(t, a, toTest)
	if n := testing.AllocsPerRun(100, func() {
		ticket, ok := a.Lend(data)
		if err := m.Read(dst, ticket); err != nil || !ok {
			t.Error(ok, err)
		}
		a.Return(ticket)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAdvertsDiffer(t *testing.T) {
	a, b := advertise(t, toTest), advertise(t, toTest)
	if a.claim.nonce == b.claim.nonce || a.claim.address == b.claim.address {
		t.Error("two adverts have the same nonce or address")
	}
	if a.claim.pid != uint32(os.Getpid()) {
		t.Errorf("the advert names process %d", a.claim.pid)
	}
}
