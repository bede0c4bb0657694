package training

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/powers"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

func power[T element.Floating](v, e T) T { return T(powers.Of(float64(v), float64(e))) }

func exponent[T element.Floating](v T) T { return T(math.Exp(float64(v))) }

func signOf[T element.Floating](v T) T {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return v
}

// h: alpha
func descend[T element.Numeric](slots [][]T, grad, h []T, _ bool) {
	v := slots[0]
	for i, g := range grad {
		v[i] -= g * h[0]
	}
}

func descend32(slots [][]float32, grad, h []float32, _ bool) { simd.Axpy(slots[0], -h[0], grad) }

// shrink is the proximal step: it moves v towards zero by l1 and divides it by the weight from l2.
func shrink[T element.Floating](v, rate, l1, l2 T) T {
	if l1 > 0 {
		v = signOf(v) * max(element.Absolute(v)-rate*l1, 0)
	}
	return v / (1 + l2*rate)
}

// h: alpha, l1, l2
func descendProximal[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v := slots[0]
	for i, g := range grad {
		v[i] = shrink(v[i]-g*h[0], h[0], h[1], h[2])
	}
}

// h: lr, momentum; slots: var, accum
func momentum[T element.Numeric](slots [][]T, grad, h []T, nesterov bool) {
	v, a, lr, mom := slots[0], slots[1], h[0], h[1]
	for i, g := range grad {
		a[i] = a[i]*mom + g
		if nesterov {
			v[i] -= g*lr + a[i]*mom*lr
		} else {
			v[i] -= a[i] * lr
		}
	}
}

func momentum32(slots [][]float32, grad, h []float32, nesterov bool) {
	simd.ApplyMomentum(slots[0], slots[1], grad, h[0], h[1], nesterov)
}

// h: lr, momentum; slots: var, accum
func momentumKeras[T element.Numeric](slots [][]T, grad, h []T, nesterov bool) {
	v, a, lr, mom := slots[0], slots[1], h[0], h[1]
	for i, g := range grad {
		a[i] = a[i]*mom - g*lr
		if nesterov {
			v[i] += a[i]*mom - g*lr
		} else {
			v[i] += a[i]
		}
	}
}

// adamRate returns the learning rate, corrected for the moments' start at zero.
func adamRate[T element.Floating](lr, beta1Power, beta2Power T) T {
	return lr * element.Sqrt(1-beta2Power) / (1 - beta1Power)
}

// h: beta1_power, beta2_power, lr, beta1, beta2, epsilon; slots: var, m, v
func adam[T element.Floating](slots [][]T, grad, h []T, nesterov bool) {
	v, m, vv := slots[0], slots[1], slots[2]
	rate, beta1, beta2, eps := adamRate(h[2], h[0], h[1]), h[3], h[4], h[5]
	for i, g := range grad {
		m[i] += (g - m[i]) * (1 - beta1)
		vv[i] += (g*g - vv[i]) * (1 - beta2)
		step := m[i]
		if nesterov {
			step = g*(1-beta1) + beta1*m[i]
		}
		v[i] -= step * rate / (element.Sqrt(vv[i]) + eps)
	}
}

func adam32(slots [][]float32, grad, h []float32, nesterov bool) {
	simd.ApplyAdam(slots[0], slots[1], slots[2], grad, adamRate(h[2], h[0], h[1]), h[3], h[4], h[5], nesterov)
}

// slots: var, m, v, vhat
func amsgrad[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, m, vv, top := slots[0], slots[1], slots[2], slots[3]
	rate, beta1, beta2, eps := adamRate(h[2], h[0], h[1]), h[3], h[4], h[5]
	for i, g := range grad {
		m[i] += (g - m[i]) * (1 - beta1)
		vv[i] += (g*g - vv[i]) * (1 - beta2)
		top[i] = max(top[i], vv[i])
		v[i] -= m[i] * rate / (element.Sqrt(top[i]) + eps)
	}
}

// h: beta1_power, lr, beta1, beta2, epsilon; slots: var, m, v
func adaMax[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, m, u := slots[0], slots[1], slots[2]
	rate := h[1] / (1 - h[0])
	for i, g := range grad {
		m[i] += (g - m[i]) * (1 - h[2])
		u[i] = max(h[3]*u[i], element.Absolute(g))
		v[i] -= rate * (m[i] / (u[i] + h[4]))
	}
}

// h: lr; slots: var, accum
func adagrad[T element.Floating](slots [][]T, grad, h []T, updateSlots bool) {
	v, a := slots[0], slots[1]
	for i, g := range grad {
		if updateSlots {
			a[i] += g * g
		}
		v[i] -= g * h[0] / element.Sqrt(a[i])
	}
}

func adagrad32(slots [][]float32, grad, h []float32, updateSlots bool) {
	if !updateSlots {
		adagrad(slots, grad, h, false)
		return
	}
	simd.ApplyAdagrad(slots[0], slots[1], grad, h[0], 0)
}

// h: lr, epsilon
func adagradV2[T element.Floating](slots [][]T, grad, h []T, updateSlots bool) {
	v, a := slots[0], slots[1]
	for i, g := range grad {
		if updateSlots {
			a[i] += g * g
		}
		v[i] -= g * h[0] / (element.Sqrt(a[i]) + h[1])
	}
}

func adagradV232(slots [][]float32, grad, h []float32, updateSlots bool) {
	if !updateSlots {
		adagradV2(slots, grad, h, false)
		return
	}
	simd.ApplyAdagrad(slots[0], slots[1], grad, h[0], h[1])
}

// h: lr, l1, l2
func adagradProximal[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, a := slots[0], slots[1]
	for i, g := range grad {
		a[i] += g * g
		rate := h[0] / element.Sqrt(a[i])
		v[i] = shrink(v[i]-g*rate, rate, h[1], h[2])
	}
}

// h: lr, l1, l2, global_step; slots: var, gradient_accumulator, gradient_squared_accumulator
func adagradDual[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, sum, squares := slots[0], slots[1], slots[2]
	lr, l1, l2, step := h[0], h[1], h[2], h[3]
	for i, g := range grad {
		sum[i] += g
		squares[i] += g * g
		s := sum[i]
		if l1 > 0 {
			s = signOf(s) * max(element.Absolute(s)-step*l1, 0)
		}
		v[i] = -lr * s / (l2*step*lr + element.Sqrt(squares[i]))
	}
}

// adagradDualRows is adagradDual for rows. As in TensorFlow, rows with more than one element divide by the step and by the rate where other
// updates multiply. The results differ if these are infinite, zero or negative.
func adagradDualRows[T element.Floating](slots [][]T, grad, h []T, flag bool) {
	if len(grad) == 1 {
		adagradDual(slots, grad, h, flag)
		return
	}
	v, sum, squares := slots[0], slots[1], slots[2]
	lr, l1, l2, step := h[0], h[1], h[2], h[3]
	for i, g := range grad {
		sum[i] += g
		squares[i] += g * g
		s := sum[i] / step
		if l1 > 0 {
			s = signOf(sum[i]) * max(element.Absolute(sum[i])/step-l1, 0)
		}
		v[i] = -s / (l2 + element.Sqrt(squares[i])/(step*lr))
	}
}

// h: lr, rho, epsilon; slots: var, accum, accum_update
func adadelta[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, a, u := slots[0], slots[1], slots[2]
	lr, rho, eps := h[0], h[1], h[2]
	for i, g := range grad {
		a[i] = a[i]*rho + g*g*(1-rho)
		step := element.Sqrt(u[i]+eps) / element.Sqrt(a[i]+eps) * g
		v[i] -= step * lr
		u[i] = u[i]*rho + step*step*(1-rho)
	}
}

// h: lr, rho, momentum, epsilon; slots: var, ms, mom
func rmsProp[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, ms, mom := slots[0], slots[1], slots[2]
	for i, g := range grad {
		ms[i] += (g*g - ms[i]) * (1 - h[1])
		mom[i] = mom[i]*h[2] + g*h[0]/element.Sqrt(ms[i]+h[3])
		v[i] -= mom[i]
	}
}

func rmsProp32(slots [][]float32, grad, h []float32, _ bool) {
	simd.ApplyRMSProp(slots[0], slots[1], slots[2], grad, h[0], h[1], h[2], h[3])
}

// slots: var, mg, ms, mom
func rmsPropCentered[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, mg, ms, mom := slots[0], slots[1], slots[2], slots[3]
	for i, g := range grad {
		ms[i] += (g*g - ms[i]) * (1 - h[1])
		mg[i] += (g - mg[i]) * (1 - h[1])
		mom[i] = mom[i]*h[2] + g*h[0]/element.Sqrt(ms[i]-mg[i]*mg[i]+h[3])
		v[i] -= mom[i]
	}
}

func rmsPropCentered32(slots [][]float32, grad, h []float32, _ bool) {
	simd.ApplyCenteredRMSProp(slots[0], slots[1], slots[2], slots[3], grad, h[0], h[1], h[2], h[3])
}

// h: lr, alpha, sign_decay, beta; slots: var, m
func addSign[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, m := slots[0], slots[1]
	for i, g := range grad {
		m[i] = m[i]*h[3] + g*(1-h[3])
		v[i] -= h[0] * (h[1] + h[2]*signOf(g)*signOf(m[i])) * g
	}
}

// h: lr, logbase, sign_decay, beta
func powerSign[T element.Floating](slots [][]T, grad, h []T, _ bool) {
	v, m := slots[0], slots[1]
	for i, g := range grad {
		m[i] = m[i]*h[3] + g*(1-h[3])
		v[i] -= h[0] * exponent(h[1]*h[2]*signOf(g)*signOf(m[i])) * g
	}
}

// h: lr, l1, l2, lr_power; slots: var, accum, linear. If linearByLR is set, linear is kept multiplied by lr.
func ftrl[T element.Floating](slots [][]T, grad, h []T, linearByLR bool) {
	follow(slots, grad, h[0], h[1], h[2], 0, h[3], linearByLR)
}

// h: lr, l1, l2, l2_shrinkage, lr_power
func ftrlV2[T element.Floating](slots [][]T, grad, h []T, linearByLR bool) {
	follow(slots, grad, h[0], h[1], h[2], h[3], h[4], linearByLR)
}

// follow is the step of follow-the-regularized-leader.
func follow[T element.Floating](slots [][]T, grad []T, lr, l1, l2, shrinkage, lrPower T, linearByLR bool) {
	v, a, linear := slots[0], slots[1], slots[2]
	raise := func(x T) T { return power(x, -lrPower) }
	if lrPower == -0.5 {
		raise = element.Sqrt[T]
	}
	for i, g := range grad {
		next := a[i] + g*g
		sigma, rest, bound, quadratic := raise(next)-raise(a[i]), g+2*shrinkage*v[i], l1, raise(next)
		if linearByLR {
			rest, bound = rest*lr, l1*lr
			quadratic += 2 * l2 * lr
		} else {
			sigma /= lr
			quadratic = quadratic/lr + 2*l2
		}
		linear[i] += rest - sigma*v[i]
		v[i] = 0
		if element.Absolute(linear[i]) > bound {
			v[i] = (bound*signOf(linear[i]) - linear[i]) / quadratic
		}
		a[i] = next
	}
}

func ftrl32(slots [][]float32, grad, h []float32, linearByLR bool) {
	follow32(slots, grad, h[0], h[1], h[2], 0, h[3], linearByLR)
}

func ftrlV232(slots [][]float32, grad, h []float32, linearByLR bool) {
	follow32(slots, grad, h[0], h[1], h[2], h[3], h[4], linearByLR)
}

// follow32 is follow, vectorized for the default power.
func follow32(slots [][]float32, grad []float32, lr, l1, l2, shrinkage, lrPower float32, linearByLR bool) {
	if lrPower != -0.5 {
		follow(slots, grad, lr, l1, l2, shrinkage, lrPower, linearByLR)
		return
	}
	simd.ApplyFtrl(slots[0], slots[1], slots[2], grad, lr, l1, l2, shrinkage, linearByLR)
}

// halfUpdate returns the update of a half type that converts blocks to float32 and applies f.
func halfUpdate[H element.HalfFloat](f update[float32]) update[H] {
	return func(slots [][]H, grad, h []H, flag bool) {
		wide := make([]float32, (len(slots)+1)*element.HalfBlock+len(h))
		scalars := wide[(len(slots)+1)*element.HalfBlock:]
		element.Widen(scalars, h)
		for lo := 0; lo < len(grad); lo += element.HalfBlock {
			hi := min(lo+element.HalfBlock, len(grad))
			var memory [maxSlots][]float32
			parts := memory[:len(slots)]
			for i, s := range slots {
				parts[i] = wide[i*element.HalfBlock:][:hi-lo]
				element.Widen(parts[i], s[lo:hi])
			}
			g := wide[len(slots)*element.HalfBlock:][:hi-lo]
			element.Widen(g, grad[lo:hi])
			f(parts, g, scalars, flag)
			for i, s := range slots {
				element.Narrow(s[lo:hi], parts[i])
			}
		}
	}
}
