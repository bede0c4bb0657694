package simd

// ApplyAdam updates the variable v and its moments m and vv for a gradient,
// as TensorFlow's ApplyAdam does:
//
//	m  += (grad - m) * (1 - beta1)
//	vv += (grad² - vv) * (1 - beta2)
//	v  -= m * rate / (sqrt(vv) + eps)
//
// where the caller computes rate = lr * sqrt(1 - beta2^t) / (1 - beta1^t).
// With nesterov, (1-beta1)*grad + beta1*m replaces m in the last line.
func ApplyAdam(v, m, vv, grad []float32, rate, beta1, beta2, eps float32, nesterov bool) {
	if len(v) != len(m) || len(v) != len(vv) || len(v) != len(grad) {
		checkLengths(len(v), len(m), len(vv), len(grad))
	}
	f := active.adam
	if nesterov {
		f = active.adamNesterov
	}
	rest1, rest2 := 1-beta1, 1-beta2
	for len(v) > block {
		f(v[:block], m[:block], vv[:block], grad[:block], rate, beta1, rest1, rest2, eps)
		v, m, vv, grad = v[block:], m[block:], vv[block:], grad[block:]
	}
	f(v, m, vv, grad, rate, beta1, rest1, rest2, eps)
}

// ApplyMomentum updates the variable v and its accumulator for a gradient:
//
//	accum = accum*momentum + grad
//	v    -= accum * lr
//
// With nesterov, accum*momentum + grad replaces accum in the last line.
func ApplyMomentum(v, accum, grad []float32, lr, momentum float32, nesterov bool) {
	if len(v) != len(accum) || len(v) != len(grad) {
		checkLengths(len(v), len(accum), len(grad))
	}
	f := active.momentum
	if nesterov {
		f = active.momentumNesterov
	}
	for len(v) > block {
		f(v[:block], accum[:block], grad[:block], lr, momentum)
		v, accum, grad = v[block:], accum[block:], grad[block:]
	}
	f(v, accum, grad, lr, momentum)
}

// ApplyRMSProp updates the variable v, its mean of squares and its momentum for a gradient:
//
//	ms += (grad² - ms) * (1 - rho)
//	mom = mom*momentum + grad * lr / sqrt(ms + eps)
//	v  -= mom
func ApplyRMSProp(v, ms, mom, grad []float32, lr, rho, momentum, eps float32) {
	if len(v) != len(ms) || len(v) != len(mom) || len(v) != len(grad) {
		checkLengths(len(v), len(ms), len(mom), len(grad))
	}
	for len(v) > block {
		active.rmsProp(v[:block], ms[:block], mom[:block], grad[:block], lr, 1-rho, momentum, eps)
		v, ms, mom, grad = v[block:], ms[block:], mom[block:], grad[block:]
	}
	active.rmsProp(v, ms, mom, grad, lr, 1-rho, momentum, eps)
}

// ApplyCenteredRMSProp is ApplyRMSProp with a mean of the gradients, mg, whose square is
// subtracted from the mean of squares:
//
//	mg += (grad - mg) * (1 - rho)
//	mom = mom*momentum + grad * lr / sqrt(ms - mg² + eps)
func ApplyCenteredRMSProp(v, mg, ms, mom, grad []float32, lr, rho, momentum, eps float32) {
	if len(v) != len(mg) || len(v) != len(ms) || len(v) != len(mom) || len(v) != len(grad) {
		checkLengths(len(v), len(mg), len(ms), len(mom), len(grad))
	}
	for len(v) > block {
		active.rmsPropCentered(v[:block], ms[:block], mom[:block], grad[:block], mg[:block], lr, 1-rho, momentum, eps)
		v, mg, ms, mom, grad = v[block:], mg[block:], ms[block:], mom[block:], grad[block:]
	}
	active.rmsPropCentered(v, ms, mom, grad, mg, lr, 1-rho, momentum, eps)
}

// ApplyAdagrad updates the variable v and its sum of squares for a gradient:
//
//	accum += grad²
//	v     -= grad * lr / (sqrt(accum) + eps)
func ApplyAdagrad(v, accum, grad []float32, lr, eps float32) {
	if len(v) != len(accum) || len(v) != len(grad) {
		checkLengths(len(v), len(accum), len(grad))
	}
	for len(v) > block {
		active.adagrad(v[:block], accum[:block], grad[:block], lr, eps)
		v, accum, grad = v[block:], accum[block:], grad[block:]
	}
	active.adagrad(v, accum, grad, lr, eps)
}

// ApplyFtrl updates the variable v, its sum of squares and its linear term for a gradient, with a
// learning rate of lr over the root of the sum (lr_power -0.5):
//
//	sigma   = (sqrt(accum + grad²) - sqrt(accum)) / lr
//	accum  += grad²
//	linear += grad + 2*shrinkage*v - sigma*v
//	v       = (sign(linear)*l1 - linear) / (sqrt(accum)/lr + 2*l2) where |linear| > l1, else 0
//
// With linearByLR, linear is kept multiplied by lr.
func ApplyFtrl(v, accum, linear, grad []float32, lr, l1, l2, shrinkage float32, linearByLR bool) {
	if len(v) != len(accum) || len(v) != len(linear) || len(v) != len(grad) {
		checkLengths(len(v), len(accum), len(linear), len(grad))
	}
	rate, perRate, bound, ridge, shrink := float32(1), 1/lr, l1, 2*l2, 2*shrinkage
	if linearByLR {
		rate, perRate, bound, ridge = lr, 1, l1*lr, 2*l2*lr
	}
	for len(v) > block {
		active.ftrl(v[:block], accum[:block], linear[:block], grad[:block], rate, perRate, bound, ridge, shrink)
		v, accum, linear, grad = v[block:], accum[block:], linear[block:], grad[block:]
	}
	active.ftrl(v, accum, linear, grad, rate, perRate, bound, ridge, shrink)
}
