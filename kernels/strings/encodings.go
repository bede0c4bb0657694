package strings

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// An encodingReader decodes the first character of s, which is not empty, and returns its size in bytes. For an invalid one, r is U+FFFD
// and ok is false.
type encodingReader func(s string) (r rune, size int, ok bool)

// newReader returns a function that creates readers of the named encoding; nil if there is none. Case, dashes and underscores in the name
// do not matter. Each run of an op needs a new reader: as in TensorFlow, a byte order mark applies to all strings after it.
func newReader(name string) func() encodingReader {
	plain := strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))
	always := func(r encodingReader) func() encodingReader { return func() encodingReader { return r } }
	switch plain {
	case "utf8":
		return always(readUTF8)
	case "utf16be", "utf16bigendian":
		return always(readUTF16(binary.BigEndian))
	case "utf16le", "utf16littleendian":
		return always(readUTF16(binary.LittleEndian))
	case "utf16":
		return withMark(2, readUTF16(binary.BigEndian), readUTF16(binary.LittleEndian))
	case "utf32be":
		return always(readUTF32(binary.BigEndian))
	case "utf32le":
		return always(readUTF32(binary.LittleEndian))
	case "utf32":
		return withMark(4, readUTF32(binary.BigEndian), readUTF32(binary.LittleEndian))
	case "usascii", "ascii", "ansix3.41968", "iso646us":
		return always(readASCII)
	case "latin1", "iso88591", "l1":
		return always(func(s string) (rune, int, bool) { return rune(s[0]), 1, true })
	}
	if page, ok := strings.CutPrefix(plain, "cp125"); ok {
		name = "windows-125" + page
	}
	for _, spelling := range []string{name, strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "_", "-")} {
		for _, index := range []*ianaindex.Index{ianaindex.IANA, ianaindex.MIME} {
			e, err := index.Encoding(spelling)
			switch {
			case err != nil || e == nil:
			case e == japanese.ISO2022JP || e == simplifiedchinese.HZGB2312:
				return func() encodingReader { return readEscaped(e) }
			default:
				return always(readCharset(e))
			}
		}
	}
	return nil
}

func readASCII(s string) (rune, int, bool) {
	if s[0] >= utf8.RuneSelf {
		return utf8.RuneError, 1, false
	}
	return rune(s[0]), 1, true
}

// readUTF8 treats a truncated sequence that starts validly as one invalid character, as Unicode recommends.
func readUTF8(s string) (rune, int, bool) {
	if r, size := utf8.DecodeRuneInString(s); r != utf8.RuneError || size > 1 {
		return r, size, true
	}
	// After some lead bytes, the second byte has narrower bounds, which exclude overlong forms, surrogates, and values beyond Unicode.
	lo, hi, more := byte(0x80), byte(0xbf), 0
	switch c := s[0]; {
	case c >= 0xc2 && c <= 0xdf:
		more = 1
	case c >= 0xe0 && c <= 0xef:
		more = 2
		if c == 0xe0 {
			lo = 0xa0
		}
		if c == 0xed {
			hi = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		more = 3
		if c == 0xf0 {
			lo = 0x90
		}
		if c == 0xf4 {
			hi = 0x8f
		}
	}
	size := 1
	for ; size <= more && size < len(s) && s[size] >= lo && s[size] <= hi; size++ {
		lo, hi = 0x80, 0xbf
	}
	return utf8.RuneError, size, false
}

func readUTF16(order binary.ByteOrder) encodingReader {
	unit := func(s string) rune { return rune(order.Uint16([]byte(s[:2]))) }
	return func(s string) (rune, int, bool) {
		if len(s) < 2 {
			return utf8.RuneError, len(s), false
		}
		first := unit(s)
		switch {
		case first < 0xd800 || first > 0xdfff:
			return first, 2, true
		case first > 0xdbff || len(s) < 4:
			if first <= 0xdbff && len(s) == 3 {
				return utf8.RuneError, 3, false
			}
			return utf8.RuneError, 2, false
		}
		second := unit(s[2:])
		if second < 0xdc00 || second > 0xdfff {
			return utf8.RuneError, 2, false
		}
		return (first-0xd800)<<10 + (second - 0xdc00) + 0x10000, 4, true
	}
}

func readUTF32(order binary.ByteOrder) encodingReader {
	return func(s string) (rune, int, bool) {
		if len(s) < 4 {
			return utf8.RuneError, len(s), false
		}
		v := order.Uint32([]byte(s[:4]))
		if v > utf8.MaxRune || v >= 0xd800 && v <= 0xdfff {
			return utf8.RuneError, 4, false
		}
		return rune(v), 4, true
	}
}

// withMark reads in the byte order of the mark at the start of the first string, or big-endian without one. The mark is part of the first
// character; alone, it is an invalid one.
func withMark(size int, big, little encodingReader) func() encodingReader {
	return func() encodingReader {
		reader, begun := big, false
		return func(s string) (rune, int, bool) {
			if begun {
				return reader(s)
			}
			begun = true
			if r, n, _ := little(s); r == 0xfeff && n == size {
				reader = little
			} else if r, n, _ := big(s); r != 0xfeff || n != size {
				return reader(s)
			}
			if len(s) == size {
				return utf8.RuneError, size, false
			}
			r, n, ok := reader(s[size:])
			return r, n + size, ok
		}
	}
}

// encodingWriters append a code point in each of the encodings supported for output.
var encodingWriters = map[string]func(text []byte, r rune) []byte{
	"UTF-8": utf8.AppendRune,
	"UTF-16-BE": func(text []byte, r rune) []byte {
		if r >= 0x10000 {
			r -= 0x10000
			text = binary.BigEndian.AppendUint16(text, uint16(0xd800+r>>10))
			r = 0xdc00 + r&0x3ff
		}
		return binary.BigEndian.AppendUint16(text, uint16(r))
	},
	"UTF-32-BE": func(text []byte, r rune) []byte { return binary.BigEndian.AppendUint32(text, uint32(r)) },
}
