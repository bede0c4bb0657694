package parse

import (
	"math"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Setter sets element i of a tensor to the number in text. It returns false if text is not a number of the tensor's type.
type Setter func(t *tensor.Tensor, i int, text string) bool

// Numbers returns the setters for int32, int64, float32 and float64, given functions that parse an integer or a floating-point number with
// a number of bits.
func Numbers(integer func(s string, bits int) (int64, error), float func(s string, bits int) (float64, error)) map[tensor.DType]Setter {
	return map[tensor.DType]Setter{
		tensor.Int32: Number[int32](32, integer), tensor.Int64: Number[int64](64, integer),
		tensor.Float32: Number[float32](32, float), tensor.Float64: Number[float64](64, float),
	}
}

// Number returns the setter for elements of type T, given their bits and a function that parses a wide number.
func Number[T int32 | int64 | uint32 | uint64 | float32 | float64, W int64 | uint64 | float64](bits int, read func(s string, bits int) (W, error)) Setter {
	return func(t *tensor.Tensor, i int, text string) bool {
		v, err := read(text, bits)
		tensor.Of[T](t)[i] = T(v)
		return err == nil
	}
}

// TrimSpace removes the characters around a number that C takes for spaces, which are those of ASCII.
func TrimSpace(s string) string { return strings.Trim(s, " \t\n\v\f\r") }

// Int parses a decimal integer.
func Int(s string, bits int) (int64, error) { return strconv.ParseInt(s, 10, bits) }

// Float parses a floating-point number as C does: numbers out of range become infinite, hexadecimal ones need no exponent, underscores are not
// allowed, and a NaN may have a sign, and characters in parentheses after it. The error is that of strconv.
func Float(s string, bits int) (float64, error) {
	if isNaN(s) {
		return math.NaN(), nil
	}
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

func isNaN(s string) bool {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	if len(s) < 3 || !strings.EqualFold(s[:3], "nan") {
		return false
	}
	if s = s[3:]; s == "" {
		return true
	}
	return len(s) >= 2 && s[0] == '(' && s[len(s)-1] == ')' && strings.Trim(s[1:len(s)-1], word) == ""
}

// word holds the characters that may be in the parentheses after a NaN.
const word = "0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
