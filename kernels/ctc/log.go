package ctc

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/element"
)

// logZero is the logarithm of 0.
var logZero = math.Inf(-1)

// logAdd returns the logarithm of the sum of two numbers, given by their logarithms.
func logAdd[T element.Floating](a, b T) T {
	switch {
	case math.IsInf(float64(a), -1):
		return b
	case math.IsInf(float64(b), -1):
		return a
	case a > b:
		return a + logPlusExp(b-a)
	}
	return b + logPlusExp(a-b)
}

// logPlusExp returns log(1 + exp(d)), computed in float32.
func logPlusExp[T element.Floating](d T) T {
	return T(float32(math.Log1p(float64(exp32(d)))))
}

// exp32 returns exp(v), computed in float32.
func exp32[T element.Floating](v T) float32 { return float32(math.Exp(float64(float32(v)))) }

func exp[T element.Floating](v T) T { return T(math.Exp(float64(v))) }
func log[T element.Floating](v T) T { return T(math.Log(float64(v))) }
