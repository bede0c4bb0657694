// Package bytesize parses and formats numbers of bytes as people write them: 23.5 GiB.
package bytesize

import (
	"fmt"
	"strconv"
	"strings"
)

// units are the suffixes that Parse accepts. A suffix comes after the longer ones that end in it.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}, {"", 1},
}

// Parse reads a number with or without a unit, with or without spaces in between: 512MiB, 4 GB, 1.5G.
func Parse(text string) (int64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(strings.TrimSpace(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || !(n >= 0 && n*u.bytes < 1<<62) {
			break
		}
		return int64(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%q is not a number of bytes, such as 512MiB or 4GB", text)
}

// Text formats a number of bytes with at most three digits and a unit: 512 B, 23.5 GiB, 137 MiB.
func Text(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/(1<<10), 0
	names := []string{"KiB", "MiB", "GiB", "TiB"}
	for ; f >= 999.5 && unit < len(names)-1; unit++ {
		f /= 1 << 10
	}
	fraction := 0
	if f < 99.95 {
		fraction = 1
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', fraction, 64), ".0") + " " + names[unit]
}

// Flag is Text without the space, for values on a command line.
func Flag(n int64) string { return strings.ReplaceAll(Text(n), " ", "") }
