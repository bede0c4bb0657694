package simd

import "math"

// The portable kernels. Lengths have already been checked; slicing the inputs to the length of dst tells the compiler.

func add(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func sub(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mul(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func div(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

func maximum(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if x := a[i]; x > b[i] || x != x {
			dst[i] = x
		} else {
			dst[i] = b[i]
		}
	}
}

func minimum(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if x := a[i]; x < b[i] || x != x {
			dst[i] = x
		} else {
			dst[i] = b[i]
		}
	}
}

func reluGrad(dst, grad, features []float32) {
	grad, features = grad[:len(dst)], features[:len(dst)]
	for i := range dst {
		var open float32
		if features[i] > 0 {
			open = 1
		}
		dst[i] = grad[i] * open
	}
}

func addScalar(dst, a []float32, s float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + s
	}
}

func subScalar(dst, a []float32, s float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - s
	}
}

func rsubScalar(dst, a []float32, s float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = s - a[i]
	}
}

func mulScalar(dst, a []float32, s float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * s
	}
}

func divScalar(dst, a []float32, s float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / s
	}
}

func rdivScalar(dst, a []float32, s float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = s / a[i]
	}
}

func neg(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = -a[i]
	}
}

func abs(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = math.Float32frombits(math.Float32bits(a[i]) &^ (1 << 31))
	}
}

func square(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * a[i]
	}
}

func sqrt(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = float32(math.Sqrt(float64(a[i])))
	}
}

func rsqrt(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = 1 / float32(math.Sqrt(float64(a[i])))
	}
}

func relu(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		x := a[i]
		if x <= 0 {
			x = 0
		}
		dst[i] = x
	}
}

func exp(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = float32(math.Exp(float64(a[i])))
	}
}

func log(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = float32(math.Log(float64(a[i])))
	}
}

func tanh(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = float32(math.Tanh(float64(a[i])))
	}
}

func sigmoid(dst, a []float32) {
	a = a[:len(dst)]
	for i := range dst {
		dst[i] = float32(1 / (1 + math.Exp(-float64(a[i]))))
	}
}

func erf(dst, a []float32) {
	for i, x := range a {
		dst[i] = float32(math.Erf(float64(x)))
	}
}

func expSum(dst, a []float32, shift float32) float32 {
	subScalar(dst, a, shift)
	exp(dst, dst)
	return sum(dst)
}
