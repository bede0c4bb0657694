package bytesize

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1073741824": 1 << 30, "512MiB": 512 << 20, "4GB": 4e9, "1.5G": 3 << 29, "2 KiB": 2048, "7B": 7, " 23.5 GiB ": 47 << 29} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1e30", "NaN", "Inf", "1 2 KiB", "5000000TiB", "G", "1PB", "1e300TB", "much"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1 KiB", 1536: "1.5 KiB", 47 << 29: "23.5 GiB", 137 << 20: "137 MiB", 1010 << 20: "1 GiB",
		999 << 20: "999 MiB", 8 << 30: "8 GiB", math.MaxInt64: "8388608 TiB", 102297: "99.9 KiB", 102399: "100 KiB", 1023488: "1 MiB", 1023487: "999 KiB"} {
		if got := Text(n); got != want {
			t.Errorf("%d is %s; want %s", n, got, want)
		}
	}
}

// TestRoundTrip checks that Parse accepts what Flag returns, with the same number to three digits.
func TestRoundTrip(t *testing.T) {
	for n := int64(1); n > 0; n = n*7/3 + 1 {
		for _, text := range []string{Text(n), Flag(n)} {
			back, err := Parse(text)
			if err != nil || math.Abs(float64(back-n)) > 0.06*float64(n) {
				t.Fatalf("%d is %q, which is %d, %v", n, text, back, err)
			}
		}
	}
}
