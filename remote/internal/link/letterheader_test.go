package link

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/actors/cast"
)

// TestLetterHeaders checks what the header of a message to a program's actor carries, and what is left out of one that is too long.
func TestLetterHeaders(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	long := strings.Repeat("a", maxLetterHeader)
	for name, c := range map[string]struct {
		sent, want cast.Letter
	}{
		"nothing":           {},
		"a client":          {cast.Letter{Client: "c"}, cast.Letter{Client: "c"}},
		"a trace":           {cast.Letter{Trace: &cast.Trace{Parent: parent}}, cast.Letter{Trace: &cast.Trace{Parent: parent}}},
		"all":               {cast.Letter{Client: "c", Trace: &cast.Trace{Parent: parent, State: "a=b"}}, cast.Letter{Client: "c", Trace: &cast.Trace{Parent: parent, State: "a=b"}}},
		"the longest state": {cast.Letter{Trace: &cast.Trace{Parent: parent, State: long[:2<<10]}}, cast.Letter{Trace: &cast.Trace{Parent: parent, State: long[:2<<10]}}},
		"a longer state":    {cast.Letter{Client: "c", Trace: &cast.Trace{Parent: parent, State: long}}, cast.Letter{Client: "c", Trace: &cast.Trace{Parent: parent}}},
		"a long parent":     {cast.Letter{Client: "c", Trace: &cast.Trace{Parent: long}}, cast.Letter{Client: "c"}},
		"nothing fits":      {cast.Letter{Trace: &cast.Trace{Parent: long, State: long}}, cast.Letter{}},
	} {
		header := headerOf(&c.sent)
		got, client, err := readLetterHeader(header)
		if err != nil || client != c.want.Client || (got == nil) != (c.want.Trace == nil) || got != nil && *got != *c.want.Trace {
			t.Errorf("%s: the header says %+v, %q, %v", name, got, client, err)
		}
		if none := c.want.Client == "" && c.want.Trace == nil; none != (len(header) == 0) {
			t.Errorf("%s: the header has %d bytes", name, len(header))
		}
	}
	if _, _, err := readLetterHeader([]byte{0x0a, 0x7f}); err == nil {
		t.Error("a malformed header is accepted")
	}
	if got, client, err := readLetterHeader(make([]byte, maxLetterHeader+1)); got != nil || client != "" || err != nil {
		t.Errorf("a header that is too long says %v, %q, %v", got, client, err)
	}
}
