package samehost

import (
	"encoding/hex"
	"os"
	"runtime"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestException: as few as Yama can express may read.
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
	a, err := NewAdvert()
	if err != nil {
		t.Fatal(err)
	}
	o := startOwner(t, ownerPlain, nil)
	if err := a.Allow(o.advert); err != nil {
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
	want(t, "after Close", a.Allow(o.advert), status.FailedPrecondition, "closed")
	if got := reader(); got != nobody {
		t.Errorf("process %d may read after Close", got)
	}
}

// TestAdvertsLast: what keeps an advert's proof is the advert's being open, not who holds it.
func TestAdvertsLast(t *testing.T) {
	var forms [][]byte
	for range 100 {
		a, err := NewAdvert()
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, a.Bytes())
	}
	runtime.GC()
	var garbage [][]byte
	for range 1000 {
		garbage = append(garbage, make([]byte, proofSize))
	}
	for i, form := range forms {
		if _, err := Attach(form); err != nil {
			t.Fatalf("advert %d: %v", i, err)
		}
	}
	runtime.KeepAlive(garbage)
	adverts.Lock()
	clear(adverts.readers)
	adverts.Unlock()
}

func TestAdvertsDiffer(t *testing.T) {
	a, err := NewAdvert()
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewAdvert()
	if err != nil {
		t.Fatal(err)
	}
	if a.claim.nonce == b.claim.nonce || a.claim.address == b.claim.address {
		t.Error("two adverts have the same nonce or address")
	}
	if a.claim.pid != uint32(os.Getpid()) {
		t.Errorf("the advert names process %d", a.claim.pid)
	}
	for _, x := range []*Advert{a, b} {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}
