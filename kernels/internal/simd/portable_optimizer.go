package simd

func adam(v, m, vv, grad []float32, rate, beta1, rest1, rest2, eps float32) {
	m, vv, grad = m[:len(v)], vv[:len(v)], grad[:len(v)]
	for i := range v {
		m[i] += (grad[i] - m[i]) * rest1
		vv[i] += (grad[i]*grad[i] - vv[i]) * rest2
		v[i] -= m[i] * rate / (squareRoot(vv[i]) + eps)
	}
}

func adamNesterov(v, m, vv, grad []float32, rate, beta1, rest1, rest2, eps float32) {
	m, vv, grad = m[:len(v)], vv[:len(v)], grad[:len(v)]
	for i := range v {
		m[i] += (grad[i] - m[i]) * rest1
		vv[i] += (grad[i]*grad[i] - vv[i]) * rest2
		v[i] -= (grad[i]*rest1 + beta1*m[i]) * rate / (squareRoot(vv[i]) + eps)
	}
}

func momentum(v, accum, grad []float32, rate, keep float32) {
	accum, grad = accum[:len(v)], grad[:len(v)]
	for i := range v {
		accum[i] = accum[i]*keep + grad[i]
		v[i] -= accum[i] * rate
	}
}

func momentumNesterov(v, accum, grad []float32, rate, keep float32) {
	accum, grad = accum[:len(v)], grad[:len(v)]
	for i := range v {
		accum[i] = accum[i]*keep + grad[i]
		v[i] -= (accum[i]*keep + grad[i]) * rate
	}
}

func rmsProp(v, ms, mom, grad []float32, rate, rest, keep, eps float32) {
	ms, mom, grad = ms[:len(v)], mom[:len(v)], grad[:len(v)]
	for i := range v {
		ms[i] += (grad[i]*grad[i] - ms[i]) * rest
		mom[i] = mom[i]*keep + grad[i]*rate/squareRoot(ms[i]+eps)
		v[i] -= mom[i]
	}
}

func rmsPropCentered(v, ms, mom, grad, mg []float32, rate, rest, keep, eps float32) {
	ms, mom, grad, mg = ms[:len(v)], mom[:len(v)], grad[:len(v)], mg[:len(v)]
	for i := range v {
		ms[i] += (grad[i]*grad[i] - ms[i]) * rest
		mg[i] += (grad[i] - mg[i]) * rest
		mom[i] = mom[i]*keep + grad[i]*rate/squareRoot(ms[i]-mg[i]*mg[i]+eps)
		v[i] -= mom[i]
	}
}

func adagrad(v, accum, grad []float32, rate, eps float32) {
	accum, grad = accum[:len(v)], grad[:len(v)]
	for i := range v {
		accum[i] += grad[i] * grad[i]
		v[i] -= grad[i] * rate / (squareRoot(accum[i]) + eps)
	}
}

func ftrl(v, accum, linear, grad []float32, rate, perRate, bound, ridge, shrink float32) {
	accum, linear, grad = accum[:len(v)], linear[:len(v)], grad[:len(v)]
	for i := range v {
		before := squareRoot(accum[i])
		accum[i] += grad[i] * grad[i]
		after := squareRoot(accum[i])
		linear[i] += (grad[i]+shrink*v[i])*rate - (after-before)*perRate*v[i]
		edge := bound
		if linear[i] < 0 {
			edge = -bound
		}
		if abs := max(linear[i], -linear[i]); abs > bound {
			v[i] = (edge - linear[i]) / (after*perRate + ridge)
		} else {
			v[i] = 0
		}
	}
}
