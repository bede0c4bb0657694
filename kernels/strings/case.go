package strings

import (
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// newStringCase returns the constructor of an op that changes the case of letters: those of ASCII or, if the encoding is utf-8, all of
// Unicode with full mappings (ß becomes SS).
func newStringCase(ascii func(byte) byte, unicode func(language.Tag, ...cases.Option) cases.Caser) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		encoding, err := c.Attrs().Str("encoding")
		if err != nil {
			return nil, err
		}
		switch encoding {
		case "":
			var table [256]byte
			for c := range table {
				table[c] = ascii(byte(c))
			}
			return eachString(func(s string) string { return mapped(s, &table) }), nil
		case "utf-8":
			return kernels.Func(func(ctx *kernels.Context) error {
				caser := unicode(language.Und) // has state, so one for each execution
				return eachString(func(s string) string {
					// As a C string, it ends at its first zero byte. Invalid UTF-8 becomes U+FFFD.
					s, _, _ = strings.Cut(s, "\x00")
					return caser.String(validUTF8(s))
				})(ctx)
			}), nil
		}
		return nil, status.InvalidArgumentf("only utf-8 or '' (no encoding) is supported, received %s", encoding)
	}
}

// mapped returns s with each byte replaced through the table; s itself if nothing changes.
func mapped(s string, table *[256]byte) string {
	for i := range len(s) {
		if table[s[i]] != s[i] {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				b[j] = table[b[j]]
			}
			return unsafe.String(unsafe.SliceData(b), len(b))
		}
	}
	return s
}

// validUTF8 replaces invalid UTF-8 with U+FFFD: one for each byte, or for each truncated longer sequence.
func validUTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			for n < len(s) && !utf8.FullRuneInString(s[:n+1]) {
				n++
			}
		}
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

func asciiLower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func asciiUpper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}
