package flagset

import (
	"strconv"

	"github.com/troupe-run/troupe/internal/bytesize"
)

// Size is the value of a flag: a number of bytes, such as 512MiB or 4GB.
type Size int64

// Set parses a number with or without a unit.
func (s *Size) Set(text string) error {
	n, err := bytesize.Parse(text)
	if err != nil {
		return err
	}
	*s = Size(n)
	return nil
}

// String returns the number with the largest unit that divides it.
func (s *Size) String() string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if shift := 40 - 10*i; *s > 0 && *s%(1<<shift) == 0 {
			return strconv.FormatInt(int64(*s)>>shift, 10) + unit
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type returns what help calls the flag's value.
func (s *Size) Type() string { return "bytes" }
