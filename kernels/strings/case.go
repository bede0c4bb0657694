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

// newStringCase makes the constructor of an op that changes the case of letters: those of ASCII, or all of
// Unicode by its full mappings (ß becomes SS) where the encoding is utf-8.
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
				caser := unicode(language.Und) // has state: one for each execution
				return eachString(func(s string) string {
					// As a string of C it ends with its first zero byte, and what is no UTF-8 becomes U+FFFD.
					s, _, _ = strings.Cut(s, "\x00")
					return caser.String(validUTF8(s))
				})(ctx)
			}), nil
		}
		return nil, status.InvalidArgumentf("only utf-8 or '' (no encoding) is supported, received %s", encoding)
	}
}

// mapped is s with each byte replaced by the table's: s itself where that changes none.
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

// validUTF8 puts U+FFFD in the place of what is no UTF-8: one for each byte, or for as many as begin a longer
// sequence that then breaks off.
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
