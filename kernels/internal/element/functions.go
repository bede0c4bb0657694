package element

import (
	"math"
)

// The updates, after the definitions in TensorFlow's op documentation and the papers that it
// names. slots[0] is the variable; g its gradient.

// Sqrt is the square root.
func Sqrt[T Floating](v T) T { return T(math.Sqrt(float64(v))) }

// Absolute is the magnitude.
func Absolute[T Floating](v T) T { return T(math.Abs(float64(v))) }
