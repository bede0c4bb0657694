package flagset

import (
	"strconv"

	"github.com/troupe-run/troupe/internal/bytesize"
)

// Size is the value of a flag that is a number of bytes, such as 512MiB or 4GB.
type Size int64

// parseSize parses a number with or without a unit.
func parseSize(text string) (Size, error) {
	n, err := bytesize.Parse(text)
	return Size(n), err
}

// text returns the number with the largest unit that divides it.
func (s Size) text() string {
	for i, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if shift := 40 - 10*i; s > 0 && s%(1<<shift) == 0 {
			return strconv.FormatInt(int64(s)>>shift, 10) + unit
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
