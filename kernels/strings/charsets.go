package strings

import (
	"maps"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// longest is the most bytes of a character, with an escape sequence before it.
const longest = 8

// readCharset reads a single-byte or multibyte encoding.
func readCharset(e encoding.Encoding) encodingReader {
	single := singleBytes(e)
	return func(s string) (rune, int, bool) {
		if r, ok := single[s[0]]; ok {
			return r, 1, r != utf8.RuneError
		}
		if e == simplifiedchinese.GB18030 && len(s) > 1 && s[0] > utf8.RuneSelf && !mayTrail(e, s[1]) {
			return utf8.RuneError, 1, false // the decoder would take more than digits for the second of four bytes
		}
		var out [utf8.UTFMax * 2]byte
		decoder := e.NewDecoder()
		for n := 1; n <= min(len(s), longest); n++ {
			decoder.Reset()
			written, read, _ := decoder.Transform(out[:], []byte(s[:n]), n == len(s))
			if written > 0 {
				r, _ := utf8.DecodeRune(out[:written])
				if r == utf8.RuneError && read > 1 && !mayTrail(e, s[1]) {
					read = 1
				}
				return r, max(read, 1), r != utf8.RuneError
			}
		}
		return utf8.RuneError, 1, false
	}
}

// readEscaped reads an encoding with escape sequences, which apply to all characters after them in a string. A sequence belongs to the character
// that follows it. At the end of a string it is U+FFFF, as in TensorFlow.
func readEscaped(e encoding.Encoding) encodingReader {
	decoder, single := e.NewDecoder(), singleBytes(e)
	next := func(s string) (rune, int, bool) {
		if r, ok := single[s[0]]; ok {
			return r, 1, r != utf8.RuneError
		}
		var out [utf8.UTFMax * 2]byte
		for n := 1; n <= min(len(s), longest); n++ {
			// A sequence that is read again, with more bytes after it, has no further effect.
			written, read, _ := decoder.Transform(out[:], []byte(s[:n]), n == len(s))
			if written > 0 {
				r, _ := utf8.DecodeRune(out[:written])
				return r, max(read, 1), r != utf8.RuneError
			}
			if read == len(s) {
				return '\uffff', read, true
			}
		}
		return utf8.RuneError, 1, false
	}
	return func(s string) (rune, int, bool) {
		r, size, ok := next(s)
		if size == len(s) {
			decoder.Reset() // for the next string
		}
		return r, size, ok
	}
}

// mayTrail reports whether a byte may follow the first one of a character. One that may not is a character of its own after an invalid one.
func mayTrail(e encoding.Encoding, b byte) bool {
	return b >= 0x40 || e == simplifiedchinese.GB18030 && b >= '0' && b <= '9'
}

// singleBytes returns the bytes that are characters by themselves in the tables of ICU, which TensorFlow uses, but not in those of WHATWG. They
// may be invalid (utf8.RuneError) as well.
func singleBytes(e encoding.Encoding) map[byte]rune {
	single := maps.Clone(icuBytes[e])
	if single == nil {
		single = map[byte]rune{}
	}
	for b := byte(0x80); b <= 0x9f; b++ { // control characters, if nothing else
		switch c := e.(type) {
		case *charmap.Charmap:
			if c.DecodeByte(b) == utf8.RuneError {
				single[b] = rune(b)
			}
		default:
			const shift2, shift3 = 0x8e, 0x8f // begin characters of further sets
			if (e == japanese.EUCJP || e == korean.EUCKR) && b != shift2 && b != shift3 {
				single[b] = rune(b)
			}
		}
	}
	return single
}

// ibmControls are three control characters that IBM's code pages for PCs exchange.
var ibmControls = map[byte]rune{0x1a: 0x1c, 0x1c: 0x7f, 0x7f: 0x1a}

// icuBytes holds what singleBytes returns, by encoding, without the control characters from 0x80 on.
var icuBytes = map[encoding.Encoding]map[byte]rune{
	charmap.CodePage437:       withControls(map[byte]rune{0xe6: '\u03bc'}),
	charmap.CodePage850:       ibmControls,
	charmap.CodePage852:       withControls(map[byte]rune{0xaa: utf8.RuneError}),
	charmap.CodePage855:       ibmControls,
	charmap.CodePage862:       withControls(map[byte]rune{0xe6: '\u03bc'}),
	charmap.CodePage866:       ibmControls,
	charmap.KOI8U:             {0xae: '\u255d', 0xbe: '\u256c'},
	japanese.ShiftJIS:         withControls(map[byte]rune{0x80: utf8.RuneError}),
	japanese.ISO2022JP:        {0x0e: utf8.RuneError, 0x0f: utf8.RuneError},
	simplifiedchinese.GBK:     {0xff: '\uf8f5'},
	simplifiedchinese.GB18030: {0x80: utf8.RuneError},
	traditionalchinese.Big5:   {0x80: 0x80, 0xff: '\uf8f8'},
}

func withControls(single map[byte]rune) map[byte]rune {
	maps.Copy(single, ibmControls)
	return single
}
