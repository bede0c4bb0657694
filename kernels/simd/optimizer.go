package simd

// ApplyAdam updates the variable v and its moments m and vv for a gradient,
// as TensorFlow's ApplyAdam does:
//
//	m  += (grad - m) * (1 - beta1)
//	vv += (grad² - vv) * (1 - beta2)
//	v  -= m * lr_t / (sqrt(vv) + eps)
//
// where lr_t = lr * sqrt(1 - beta2^t) / (1 - beta1^t) is worked out by the
// caller. With nesterov, (1-beta1)*grad + beta1*m replaces m in the last.
func ApplyAdam(v, m, vv, grad []float32, lr_t, beta1, beta2, eps float32, nesterov bool) {
	if len(v) != len(m) || len(v) != len(vv) || len(v) != len(grad) {
		checkLengths(len(v), len(m), len(vv), len(grad))
	}
	f := active.adam
	if nesterov {
		f = active.adamNesterov
	}
	rest1, rest2 := 1-beta1, 1-beta2
	for len(v) > block {
		f(v[:block], m[:block], vv[:block], grad[:block], lr_t, beta1, rest1, rest2, eps)
		v, m, vv, grad = v[block:], m[block:], vv[block:], grad[block:]
	}
	f(v, m, vv, grad, lr_t, beta1, rest1, rest2, eps)
}
