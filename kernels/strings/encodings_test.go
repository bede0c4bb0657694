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

// TestCharsetsAreThoseOfICU checks encodings where TensorFlow's tables, which are ICU's, are not those of golang.org/x/text.
func TestCharsetsAreThoseOfICU(t *testing.T) {
	for _, c := range []struct{ encoding, text, want string }{
		{"windows-1252", "\x80\x81\x9d", "€\u0081\u009d"}, {"cp1252", "\x81", "\u0081"}, {"windows-1251", "\x98\xc0", "\u0098А"}, {"ISO-8859-15", "\x80\xa4", "\u0080€"},
		{"EUC-JP", "\x81a\x8e\xb1\xb0\xa1", "\u0081a\uff71亜"}, {"EUC-KR", "\x81A", "\u0081A"},
		{"IBM437", "\x1a\x1c\x7f\xe6", "\x1c\x7f\x1aμ"}, {"IBM852", "\xaa", "\ufffd"}, {"KOI8-U", "\xae\xbe", "╝╬"},
		{"SHIFT_JIS", "\x80\x810\x88\x9f\x7f", "\ufffd\ufffd0亜\x1a"}, {"GBK", "\x80\xff\x81>", "€\uf8f5\ufffd>"}, {"Big5", "\x80\xff\x817", "\u0080\uf8f8\ufffd7"},
		{"GB18030", "\x80\x81>\x81\x30\x81\x30", "\ufffd\ufffd>\u0080"}, {"ISO-2022-JP", "\x0eA", "\ufffdA"},
		{"ISO-2022-JP", "\x1b$B0!0\"\x1b(BA", "亜唖A"}, {"ISO-2022-JP", "\x1b$B0!0\"\x1b(B", "亜唖\uffff"}, {"HZ-GB-2312", "~{VPND~}A~~", "中文A~"},
	} {
		read, got := newReader(c.encoding)(), ""
		for s := c.text; s != ""; {
			r, size, _ := read(s)
			got, s = got+string(r), s[size:]
		}
		if got != c.want {
			t.Errorf("%q in %s is %q, not %q", c.text, c.encoding, got, c.want)
		}
	}
}

// TestEscapesEndWithTheirString checks that an escape sequence does not apply to the next string.
func TestEscapesEndWithTheirString(t *testing.T) {
	read := newReader("ISO-2022-JP")()
	if r, size, ok := read("\x1b$B0!"); r != '亜' || size != 5 || !ok {
		t.Errorf("a character is %q of %d bytes, %v", r, size, ok)
	}
	if r, size, ok := read("0!"); r != '0' || size != 1 || !ok {
		t.Errorf("the next string begins with %q of %d bytes, %v", r, size, ok)
	}
}
