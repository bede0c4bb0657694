package element

import (
	"math"
)

// Sqrt returns the square root of v.
func Sqrt[T Floating](v T) T { return T(math.Sqrt(float64(v))) }

// Absolute returns the magnitude of v.
func Absolute[T Floating](v T) T { return T(math.Abs(float64(v))) }
