package plain

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// TestPrint checks that arguments are formatted as by fmt, and stay within one line.
func TestPrint(t *testing.T) {
	var b strings.Builder
	if _, err := Printf(&b, "%d %s %v %x %-6s|%v %q\n", status.NotFound, "a\x1b[2J\nb", errors.New("x\ny"), big.NewInt(255), "ab", 2*time.Second, "c\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := Println(&b, "one\ntwo", "three\x1b"); err != nil {
		t.Fatal(err)
	}
	if _, err := Println(&b); err != nil {
		t.Fatal(err)
	}
	const want = "5 a\ufffd[2J b x y ff ab    |2s \"c\\n\"\none two\nthree\ufffd\n\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	if got := Text("it failed\n\t [[node]]\nok\x1b\n"); got != "it failed\n\t [[node]]\n    ok\ufffd\n" {
		t.Errorf("got %q", got)
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                   "plain",
		"\x1b[2J\x1b]0;title\x07": "\uFFFD[2J\uFFFD]0;title\uFFFD",
		"two\nlines\tand\rmore":   "two lines and more",
		"\u202eright to left":     "\uFFFDright to left",
		"ünï 日本":                  "ünï 日本",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
