package strings

import (
	"encoding/binary"
	"testing"
	"unicode/utf8"
)

// TestSurrogates checks that the first half of a character in UTF-16 without the second is an error, after which reading goes on.
func TestSurrogates(t *testing.T) {
	read := readUTF16(binary.BigEndian)
	for text, want := range map[string]struct {
		r    rune
		size int
		ok   bool
	}{
		"\xd8\x00\xdc\x00": {0x10000, 4, true},
		"\xdb\xff\xdf\xff": {0x10ffff, 4, true},
		"\xd8\x00\xdb\xff": {utf8.RuneError, 2, false},
		"\xd8\x00\xe0\x00": {utf8.RuneError, 2, false},
		"\xd8\x00\xff\xff": {utf8.RuneError, 2, false},
		"\xdc\x00\xdc\x00": {utf8.RuneError, 2, false},
		"\xd8\x00":         {utf8.RuneError, 2, false},
		"\xe0\x00":         {0xe000, 2, true},
	} {
		if r, size, ok := read(text); r != want.r || size != want.size || ok != want.ok {
			t.Errorf("%q is %x of %d bytes, %v", text, r, size, ok)
		}
	}
}
