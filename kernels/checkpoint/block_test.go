package checkpoint

import "testing"

// The keys are bytes, not text: those of a variable's slices are not valid UTF-8.
func TestSuccessor(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"", ""},
		{"abc", "b"},
		{"\x80abc", "\x81"},
		{"\xff\xffa", "\xff\xffb"},
		{"\xff\x80a", "\xff\x81"},
		{"\xff\xff", "\xff\xff"},
	} {
		if got := successor(c.key); got != c.want {
			t.Errorf("successor(%q) is %q, want %q", c.key, got, c.want)
		}
	}
}
