package simd

import "math"

// sum adds in float64, which costs little in code that is not vectorized.
func sum(a []float32) float32 {
	var s [4]float64
	for len(a) >= 4 {
		s[0] += float64(a[0])
		s[1] += float64(a[1])
		s[2] += float64(a[2])
		s[3] += float64(a[3])
		a = a[4:]
	}
	for _, x := range a {
		s[0] += float64(x)
	}
	return float32((s[0] + s[2]) + (s[1] + s[3]))
}

func maxOf(a []float32) float32 {
	top := float32(math.Inf(-1))
	for _, x := range a {
		top = max(top, x)
	}
	return top
}

func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s [4]float64
	for len(a) >= 4 && len(b) >= 4 {
		s[0] += float64(a[0]) * float64(b[0])
		s[1] += float64(a[1]) * float64(b[1])
		s[2] += float64(a[2]) * float64(b[2])
		s[3] += float64(a[3]) * float64(b[3])
		a, b = a[4:], b[4:]
	}
	for i := range a {
		s[0] += float64(a[i]) * float64(b[i])
	}
	return float32((s[0] + s[2]) + (s[1] + s[3]))
}

func axpy(y, x []float32, alpha float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += alpha * x[i]
	}
}

func squareRoot(x float32) float32 { return float32(math.Sqrt(float64(x))) }
