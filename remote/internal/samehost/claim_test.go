package samehost

import (
	"bytes"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

func someClaim() *claim {
	return &claim{place: place{boot: [16]byte{1, 2, 3}, namespace: 4026531836}, pid: 4711, address: 0xc000123440, nonce: [nonceSize]byte{9, 8, 7}}
}

func TestParse(t *testing.T) {
	good := someClaim().encode()
	with := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return b
	}
	const pid = 1 + 16 + 8
	for _, c := range []struct {
		name string
		form []byte
		code status.Code
	}{
		{"good", good, status.OK},
		{"empty", nil, status.InvalidArgument},
		{"another version", with(0, version+1), status.Unimplemented},
		{"another version of another length", []byte{version + 1}, status.Unimplemented},
		{"short", good[:len(good)-1], status.InvalidArgument},
		{"long", append(bytes.Clone(good), 0), status.InvalidArgument},
		{"a negative pid", with(pid, 0x80), status.InvalidArgument},
		{"no pid", append(append(bytes.Clone(good[:pid]), 0, 0, 0, 0), good[pid+4:]...), status.InvalidArgument},
	} {
		got, err := parse(c.form)
		if status.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %v", c.name, err, c.code)
		}
		if err == nil && *got != *someClaim() {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestProofIsOfItsPlace: a proof is valid only at its address, in its process and for its parties.
func TestProofIsOfItsPlace(t *testing.T) {
	first := someClaim().proof("a to b")
	for name, change := range map[string]func(*claim){
		"pid":     func(c *claim) { c.pid++ },
		"address": func(c *claim) { c.address += 64 },
		"nonce":   func(c *claim) { c.nonce[nonceSize-1] = 1 },
	} {
		c := someClaim()
		change(c)
		if c.proof("a to b") == first {
			t.Errorf("another %s has the same proof", name)
		}
	}
	if someClaim().proof("a to c") == first {
		t.Error("other parties have the same proof")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(someClaim().encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parse(b)
		if err != nil {
			if code := status.CodeOf(err); code != status.InvalidArgument && code != status.Unimplemented {
				t.Fatalf("%v: %v", code, err)
			}
			return
		}
		if !bytes.Equal(c.encode(), b) {
			t.Fatalf("%x is read as %+v, which is %x", b, c, c.encode())
		}
	})
}
