package main

import (
	"fmt"
	"strconv"
	"strings"
)

// size is a flag's number of bytes, such as 512MiB or 4GB.
type size int64

var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}, {"", 1},
}

// Set reads a number with or without a unit.
func (s *size) Set(text string) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || !(n >= 0 && n*u.bytes < 1<<62) {
			break
		}
		*s = size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a number of bytes, such as 512MiB or 4GB", text)
}

// String is the number with the largest unit that divides it.
func (s *size) String() string {
	for _, u := range []string{"TiB", "GiB", "MiB", "KiB"} {
		for _, unit := range units {
			if unit.suffix == u && *s > 0 && int64(*s)%int64(unit.bytes) == 0 {
				return strconv.FormatInt(int64(*s)/int64(unit.bytes), 10) + u
			}
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type is what help calls the flag's value.
func (s *size) Type() string { return "bytes" }
