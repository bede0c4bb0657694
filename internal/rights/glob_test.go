package rights

import (
	"strings"
	"testing"
)

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"/job:worker/*", "/job:worker/replica:0", true}, {"/job:worker/*", "/job:worker", false}, {"*GPU*", "/device:GPU:0", true},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false}, {"a*", "b", false}, {"**", "x", true}, {"*a", "aaa", true}, {"a*a", "a", false},
		{strings.Repeat("*a", 500) + "b", strings.Repeat("a", 1000), false},
	} {
		if got := Match(c.pattern, c.text); got != c.want {
			t.Errorf("Match(%.40q, %.40q) = %v", c.pattern, c.text, got)
		}
	}
}
