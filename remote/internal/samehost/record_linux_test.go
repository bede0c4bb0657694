package samehost

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestFindRecord(t *testing.T) {
	const before = "00400000-00b5c000 r-xp 00000000 fe:00 1234   /usr/bin/troupe\n"
	const mine = "7f0000000000-7f0000003000 rw-s 00000000 00:01 77   /memfd:troupe-samehost (deleted)\n"
	const after = "7f0000004000-7f0000005000 rw-p 00000000 00:00 0   [stack]\n"
	for _, c := range []struct {
		name, maps string
		address    uint64
		has, fails bool
	}{
		{"there", before + mine + after, 0x7f0000000000, true, false},
		{"within it", before + mine + after, 0x7f0000001000, false, false},
		{"before it", before + mine + after, 0x400000, false, false},
		{"beyond all", before + mine + after, 0xffffffffff600000, false, false},
		{"of another name", strings.ReplaceAll(mine, "samehost", "other"), 0x7f0000000000, false, false},
		{"a file that still has a name", strings.ReplaceAll(mine, " (deleted)", ""), 0x7f0000000000, false, false},
		{"a longer path", strings.ReplaceAll(mine, "/memfd", "/tmp/memfd"), 0x7f0000000000, false, false},
		{"private", strings.ReplaceAll(mine, "rw-s", "rw-p"), 0x7f0000000000, false, false},
		{"too small", strings.ReplaceAll(mine, "3000 ", "2000 "), 0x7f0000000000, false, false},
		{"no mappings", "", 0x7f0000000000, false, false},
		{"nonsense", "nonsense\n" + mine, 0x7f0000000000, false, true},
	} {
		has, err := findRecord(strings.NewReader(c.maps), c.address)
		if has != c.has || (err != nil) != c.fails {
			t.Errorf("%s: %v %v", c.name, has, err)
		}
	}
}

func TestHasRecord(t *testing.T) {
	a := advertise(t, toTest)
	for name, c := range map[string]struct {
		address uint64
		has     bool
	}{"the record": {a.claim.address, true}, "its second page": {a.claim.address + uint64(os.Getpagesize()), false}, "the heap": {addressOf(pooled(1 << 20)), false}} {
		has, err := hasRecord(a.claim.pid, c.address)
		if err != nil || has != c.has {
			t.Errorf("%s: %v %v", name, has, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if has, err := hasRecord(a.claim.pid, a.claim.address); err != nil || has {
		t.Errorf("a closed advert: %v %v", has, err)
	}
}

func FuzzFindRecord(f *testing.F) {
	f.Add("7f0000000000-7f0000003000 rw-s 00000000 00:01 77 /memfd:troupe-samehost (deleted)\n", uint64(0x7f0000000000))
	f.Fuzz(func(t *testing.T, maps string, address uint64) {
		has, err := findRecord(strings.NewReader(maps), address)
		if has && (err != nil || !strings.Contains(strings.ToLower(maps), fmt.Sprintf("%x-", address)) || !strings.Contains(maps, recordPath)) {
			t.Fatalf("%q has a record at %#x: %v", maps, address, err)
		}
	})
}
