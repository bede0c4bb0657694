package training

import (
	"math/cmplx"

	"github.com/troupe-run/troupe/kernels/internal/element"
)

// Updates of complex variables: those of updates.go, with complex square roots.

func rootOf[T element.ComplexNum](v T) T { return T(cmplx.Sqrt(complex128(v))) }

// h: beta1_power, beta2_power, lr, beta1, beta2, epsilon; slots: var, m, v
func adamComplex[T element.ComplexNum](slots [][]T, grad, h []T, nesterov bool) {
	v, m, vv := slots[0], slots[1], slots[2]
	rate, beta1, beta2, eps := h[2]*rootOf(1-h[1])/(1-h[0]), h[3], h[4], h[5]
	for i, g := range grad {
		m[i] += (g - m[i]) * (1 - beta1)
		vv[i] += (g*g - vv[i]) * (1 - beta2)
		step := m[i]
		if nesterov {
			step = g*(1-beta1) + beta1*m[i]
		}
		v[i] -= step * rate / (rootOf(vv[i]) + eps)
	}
}

// h: lr; slots: var, accum
func adagradComplex[T element.ComplexNum](slots [][]T, grad, h []T, updateSlots bool) {
	v, a := slots[0], slots[1]
	for i, g := range grad {
		if updateSlots {
			a[i] += g * g
		}
		v[i] -= g * h[0] / rootOf(a[i])
	}
}

// h: lr, epsilon
func adagradV2Complex[T element.ComplexNum](slots [][]T, grad, h []T, updateSlots bool) {
	v, a := slots[0], slots[1]
	for i, g := range grad {
		if updateSlots {
			a[i] += g * g
		}
		v[i] -= g * h[0] / (rootOf(a[i]) + h[1])
	}
}

// h: lr, rho, epsilon; slots: var, accum, accum_update
func adadeltaComplex[T element.ComplexNum](slots [][]T, grad, h []T, _ bool) {
	v, a, u := slots[0], slots[1], slots[2]
	lr, rho, eps := h[0], h[1], h[2]
	for i, g := range grad {
		a[i] = a[i]*rho + g*g*(1-rho)
		step := rootOf(u[i]+eps) / rootOf(a[i]+eps) * g
		v[i] -= step * lr
		u[i] = u[i]*rho + step*step*(1-rho)
	}
}

// h: lr, rho, momentum, epsilon; slots: var, ms, mom
func rmsPropComplex[T element.ComplexNum](slots [][]T, grad, h []T, _ bool) {
	v, ms, mom := slots[0], slots[1], slots[2]
	for i, g := range grad {
		ms[i] += (g*g - ms[i]) * (1 - h[1])
		mom[i] = mom[i]*h[2] + g*h[0]/rootOf(ms[i]+h[3])
		v[i] -= mom[i]
	}
}

// slots: var, mg, ms, mom
func rmsPropCenteredComplex[T element.ComplexNum](slots [][]T, grad, h []T, _ bool) {
	v, mg, ms, mom := slots[0], slots[1], slots[2], slots[3]
	for i, g := range grad {
		ms[i] += (g*g - ms[i]) * (1 - h[1])
		mg[i] += (g - mg[i]) * (1 - h[1])
		mom[i] = mom[i]*h[2] + g*h[0]/rootOf(ms[i]-mg[i]*mg[i]+h[3])
		v[i] -= mom[i]
	}
}
