package parse

import (
	"math"
	"strconv"
	"strings"
)

// Float takes numbers beyond the range for infinite ones and hexadecimal ones without an
// exponent, as C does, and no underscores.
func Float(s string, bits int) (float64, error) {
	if strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	if digits := strings.ToLower(strings.TrimLeft(s, "+-")); strings.HasPrefix(digits, "0x") && !strings.Contains(digits, "p") {
		s += "p0"
	}
	v, err := strconv.ParseFloat(s, bits)
	if math.IsInf(v, 0) {
		return v, nil
	}
	return v, err
}
