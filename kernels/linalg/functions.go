package linalg

import (
	"math"
	"math/cmplx"

	"github.com/troupe-run/troupe/graph/status"
)

// exponential is the op MatrixExponential: Padé's approximation for the matrix divided by a power of two, squared repeatedly to undo the
// division (Higham, 2005).
func exponential(in []*matrix, out [][]complex128) error {
	const (
		degree = 13
		limit  = 5.371920351148152 // of the norm, for double precision
	)
	a, n := in[0], in[0].rows
	norm := a.norm()
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		fillNaN(out[0])
		return nil
	}
	squarings := 0
	if norm > limit {
		squarings = int(math.Ceil(math.Log2(norm / limit)))
	}
	x := a.clone()
	x.scale(complex(math.Ldexp(1, -squarings), 0))
	// The numerator is p(x), the denominator p(-x).
	power, odd, even := a.identity(n), a.like(n, n), a.like(n, n)
	c := 1.0
	for k := 0; ; k++ {
		if k%2 == 0 {
			even.add(power, complex(c, 0))
		} else {
			odd.add(power, complex(c, 0))
		}
		if k == degree {
			break
		}
		c *= float64(degree-k) / float64((2*degree-k)*(k+1))
		power = power.times(x)
	}
	below, above := even.clone(), even
	below.add(odd, -1)
	above.add(odd, 1)
	order, _, _ := lu(below)
	solveLU(below, order, above, x)
	for range squarings {
		x = x.times(x)
	}
	copy(out[0], x.data)
	return nil
}

// squareRoot returns the function of MatrixSquareRoot, which computes the principal root. A real matrix need not have a real one.
func squareRoot(onlyReal bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		t, q, ok := schur(in[0])
		if !ok {
			fillNaN(out[0])
			return nil
		}
		if onlyReal {
			limit := 1e-10 * t.norm()
			for i := range t.rows {
				if e := t.at(i, i); real(e) < -limit && math.Abs(imag(e)) <= limit {
					fillNaN(out[0])
					return nil
				}
			}
		}
		copy(out[0], q.times(rootOfTriangular(t)).times(q.adjoint()).data)
		return nil
	}
}

// rootOfTriangular returns the principal square root of an upper triangular matrix.
func rootOfTriangular(t *matrix) *matrix {
	n := t.rows
	u := t.like(n, n)
	for j := range n {
		t.look()
		u.set(j, j, cmplx.Sqrt(t.at(j, j)))
		for i := j - 1; i >= 0; i-- {
			left := t.at(i, j)
			for k := i + 1; k < j; k++ {
				left -= u.at(i, k) * u.at(k, j)
			}
			if left != 0 { // if both roots are zero as well, any number would do
				left /= u.at(i, i) + u.at(j, j)
			}
			u.set(i, j, left)
		}
	}
	return u
}

// logarithm is the op MatrixLogarithm, which computes the principal logarithm. It takes square roots until the matrix is close to the
// identity, where Padé's approximation, as a sum of fractions, holds (Higham, 2008).
func logarithm(in []*matrix, out [][]complex128) error {
	t, q, ok := schur(in[0])
	if !ok {
		fillNaN(out[0])
		return nil
	}
	copy(out[0], q.times(logOfTriangular(t)).times(q.adjoint()).data)
	return nil
}

// logOfTriangular returns the principal logarithm of an upper triangular matrix.
func logOfTriangular(t *matrix) *matrix {
	const (
		limit = 0.25
		most  = 100 // square roots, after which the matrix counts as singular
	)
	n := t.rows
	x, roots := t, 0
	for ; roots < most; roots++ {
		near := x.clone()
		for i := range n {
			near.set(i, i, near.at(i, i)-1)
		}
		if near.norm() < limit {
			break
		}
		x = rootOfTriangular(x)
	}
	x = x.clone()
	for i := range n {
		x.set(i, i, x.at(i, i)-1)
	}
	sum := t.like(n, n)
	for i, at := range gaussPoints {
		below := t.identity(n)
		below.add(x, complex(at, 0))
		part := x.clone()
		substitute(below, part, false, false)
		sum.add(part, complex(gaussWeights[i], 0))
	}
	sum.scale(complex(math.Ldexp(1, roots), 0))
	for i := range n {
		sum.set(i, i, cmplx.Log(t.at(i, i)))
	}
	return sum
}

// gaussPoints and gaussWeights are the 8-point Gauss-Legendre quadrature on [0,1].
var gaussPoints, gaussWeights = gaussLegendre(8)

// gaussLegendre finds the roots of the Legendre polynomial of degree n by Newton's method, and their weights, for [0,1].
func gaussLegendre(n int) (points, weights []float64) {
	points, weights = make([]float64, n), make([]float64, n)
	for i := range n {
		x := math.Cos(math.Pi * (float64(i) + 0.75) / (float64(n) + 0.5))
		slope := 0.0
		for range 10 {
			before, p := 1.0, x
			for k := 2; k <= n; k++ {
				before, p = p, (float64(2*k-1)*x*p-float64(k-1)*before)/float64(k)
			}
			slope = float64(n) * (x*p - before) / (x*x - 1)
			x -= p / slope
		}
		points[i], weights[i] = (1+x)/2, 1/((1-x*x)*slope*slope)
	}
	return points, weights
}

// choleskyGradient is the op CholeskyGrad. It reads only the lower triangles of the factor and of its gradient.
func choleskyGradient(in []*matrix, out [][]complex128) error {
	l, g := in[0].lower(), in[1].lower()
	if l.rows == 0 {
		return nil
	}
	h := l.adjoint()
	middle := h.times(g).lower()
	for i := range middle.rows {
		middle.set(i, i, middle.at(i, i)/2)
	}
	substitute(h, middle, false, false)
	d := middle.adjoint()
	substitute(h, d, false, false)
	d.add(d.adjoint(), 1)
	d.scale(0.5)
	copy(out[0], d.data)
	return nil
}

// selfAdjointJoined is the op SelfAdjointEig, whose output has the eigenvectors below the row of eigenvalues.
func selfAdjointJoined(in []*matrix, out [][]complex128) error {
	values, v, ok := eigHermitian(in[0])
	if !ok {
		return status.InvalidArgumentf("Self Adjoint Eigen decomposition wasnot successful. The input might not be valid.")
	}
	for i, e := range values {
		out[0][i] = complex(e, 0)
	}
	copy(out[0][len(values):], v.data)
	return nil
}
