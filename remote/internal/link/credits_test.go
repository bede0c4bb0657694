package link

import (
	"bytes"
	"errors"
	"testing"

	"github.com/troupe-run/troupe/actors/cast"
)

func TestFlow(t *testing.T) {
	f := flow{limited: true}
	send := func(name string, size int) bool {
		w := f.window(name)
		if !f.room(w, size) {
			return false
		}
		f.spend(w, size)
		return true
	}
	fill := func(name string, size, most int) (n int) {
		for n < most && send(name, size) {
			n++
		}
		return n
	}
	if n := fill("a", 1, 1<<20); n != windowMessages {
		t.Errorf("%d small messages fit", n)
	}
	if n := fill("b", cast.MaxMessage, 1<<20); n != windowBytes/cast.MaxMessage {
		t.Errorf("%d large messages fit", n)
	}
	if n := fill("?1", cast.MaxMessage, 100); n != 100 {
		t.Errorf("%d answers fit", n)
	}
	f.credit("a", 10, 10)
	f.credit("nobody", 10, 10)
	if n := fill("a", 1, 1<<20); n != 10 {
		t.Errorf("%d fit after 10 were handled", n)
	}
	for _, name := range []string{"c", "d", "e", "f"} {
		fill(name, cast.MaxMessage, 1<<20)
	}
	if f.bytes > windowAll {
		t.Errorf("%d bytes are under way", f.bytes)
	}
	if send("g", cast.MaxMessage) {
		t.Error("there is room beyond the window of all")
	}
	f.credit("b", 1, cast.MaxMessage)
	if !send("g", cast.MaxMessage-2048) {
		t.Error("there is no room after a message was handled")
	}
	// Credits for more than was sent are capped.
	for name := range f.actors {
		f.credit(name, 1<<30, 1<<30)
	}
	if f.bytes != 0 {
		t.Errorf("%d bytes are left", f.bytes)
	}
	// Windows with nothing in flight are removed when there are many.
	for i := range 3 * maxWindows {
		name := string(rune('A'+i%26)) + string(rune('0'+i/26))
		send(name, 1)
		f.credit(name, 1, 1)
	}
	if len(f.actors) > maxWindows {
		t.Errorf("%d windows are kept", len(f.actors))
	}
}

// Any input is decoded or refused.
func FuzzOutside(f *testing.F) {
	g := gathering{from: "here:1", to: "there:1"}
	for range 3 {
		g.append(letterTo("ears", []byte("text")), []byte("text"), false)
	}
	g.append(letterTo("eyes", nil), bytes.Repeat([]byte("x"), 100), true)
	m := g.next()
	f.Add(bytes.Join(m.pieces, nil))
	f.Add(appendBytesField(nil, fieldConnect, appendBytesField(nil, fieldServer, appendStringField(nil, fieldAddress, "here:1"))))
	f.Add(appendBytesField(nil, fieldCredits, []byte("\x01a\x01\x02")))
	f.Fuzz(func(t *testing.T, data []byte) {
		connectAddress(data)
		if err := readCredits(data, func(_ string, messages, bytes int) {
			if messages < 0 || bytes < 0 {
				t.Errorf("%d messages, %d bytes", messages, bytes)
			}
		}); err != nil && !errors.Is(err, errCredits) {
			t.Error(err)
		}
		var b batch
		number, value, _, _, ok := nextField(data)
		if !ok || number != fieldBatch || b.read(value) != nil {
			return
		}
		var e envelope
		for _, data := range b.envelopes {
			if e.read(&b, data) == nil && e.target.name == nil && len(b.targets) == 0 {
				t.Error("a message without a target")
			}
		}
	})
}
