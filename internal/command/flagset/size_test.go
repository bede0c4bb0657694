package flagset

import (
	"strings"
	"testing"
)

func TestSizes(t *testing.T) {
	if s, err := parseSize("1.5 GiB"); err != nil || s != 3<<29 {
		t.Errorf("1.5 GiB: %d, %v", s, err)
	}
	if _, err := parseSize("much"); err == nil || !strings.Contains(err.Error(), "is not a number of bytes") {
		t.Errorf("much: %v", err)
	}
	for n, want := range map[Size]string{0: "0", 5: "5", 2048: "2KiB", 3 << 29: "1536MiB", 4 << 40: "4TiB"} {
		if n.text() != want {
			t.Errorf("%d prints as %s", int64(n), n.text())
		}
	}
}
