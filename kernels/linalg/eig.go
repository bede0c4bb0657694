package linalg

import (
	"math"
	"math/cmplx"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
)

// eigHermitian returns the eigenvalues of a self-adjoint matrix in ascending order, and the eigenvectors as columns, by Jacobi rotations.
// It reads only the lower triangle.
func eigHermitian(a *matrix) (values []float64, vectors *matrix, ok bool) {
	n := a.rows
	m := a.clone()
	for i := range n {
		m.set(i, i, complex(real(m.at(i, i)), 0))
		for j := i + 1; j < n; j++ {
			m.set(i, j, cmplx.Conj(m.at(j, i)))
		}
	}
	v := a.identity(n) // by rows: the transpose of the vectors
	for sweep := 0; ; sweep++ {
		off, all := 0.0, 0.0
		for i := range n {
			for j, e := range m.row(i) {
				square := real(e)*real(e) + imag(e)*imag(e)
				all += square
				if i != j {
					off += square
				}
			}
		}
		if off <= 1e-32*all {
			break
		}
		if sweep == 60 || math.IsNaN(all) {
			return nil, nil, false
		}
		for p := range n {
			m.look()
			for q := p + 1; q < n; q++ {
				annihilate(m, v, p, q)
			}
		}
	}
	values = make([]float64, n)
	order := make([]int, n)
	for i := range n {
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return real(m.at(order[i], order[i])) < real(m.at(order[j], order[j])) })
	vectors = a.like(n, n)
	for to, from := range order {
		values[to] = real(m.at(from, from))
		for i, e := range v.row(from) {
			vectors.set(i, to, e)
		}
	}
	return values, vectors, true
}

// annihilate rotates rows and columns p and q of a self-adjoint matrix to make their common element zero, and rotates the rows of v with
// them.
func annihilate(m, v *matrix, p, q int) {
	g := m.at(p, q)
	size := cmplx.Abs(g)
	if size == 0 {
		return
	}
	phase := g / complex(size, 0)
	zeta := (real(m.at(q, q)) - real(m.at(p, p))) / (2 * size)
	t := 1 / (math.Abs(zeta) + math.Hypot(1, zeta))
	if zeta < 0 {
		t = -t
	}
	c := 1 / math.Hypot(1, t)
	s := c * t
	for i := range m.rows { // columns
		x, y := m.at(i, p), m.at(i, q)*cmplx.Conj(phase)
		m.set(i, p, complex(c, 0)*x-complex(s, 0)*y)
		m.set(i, q, complex(s, 0)*x+complex(c, 0)*y)
	}
	turn(m.row(p), m.row(q), c, s, cmplx.Conj(phase))
	m.set(p, q, 0)
	m.set(q, p, 0)
	turn(v.row(p), v.row(q), c, s, phase)
}

// selfAdjoint returns the function of SelfAdjointEigV2.
func selfAdjoint(vectors bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		values, v, ok := eigHermitian(in[0])
		if !ok {
			return status.InvalidArgumentf("Self-adjoint eigen decomposition was not successful. The input might not be valid.")
		}
		for i, e := range values {
			out[0][i] = complex(e, 0)
		}
		if vectors {
			copy(out[1], v.data)
		}
		return nil
	}
}

// schur reduces a square matrix to upper triangular form by unitary transformations: the shifted QR algorithm on its Hessenberg form. q is
// the transformation, with a = q·t·q*.
func schur(a *matrix) (t, q *matrix, ok bool) {
	n := a.rows
	t, q = a.clone(), a.identity(n)
	hessenberg(t, q)
	for hi, iterations := n-1, 0; hi > 0; {
		lo := hi
		for ; lo > 0; lo-- {
			size := cmplx.Abs(t.at(lo-1, lo-1)) + cmplx.Abs(t.at(lo, lo))
			if size == 0 {
				size = 1e-300
			}
			if cmplx.Abs(t.at(lo, lo-1)) <= 1.2e-16*size {
				t.set(lo, lo-1, 0)
				break
			}
		}
		if lo == hi {
			hi--
			iterations = 0
			continue
		}
		if iterations++; iterations > 300 {
			return nil, nil, false
		}
		shift := wilkinson(t, hi)
		if iterations%10 == 0 { // an exceptional shift, to leave a cycle
			shift = t.at(hi, hi) + complex(cmplx.Abs(t.at(hi, hi-1)), 0)
		}
		qrStep(t, q, lo, hi, shift)
	}
	return t, q, true
}

// hessenberg clears everything below the first subdiagonal by reflections on both sides.
func hessenberg(t, q *matrix) {
	n := t.rows
	for k := 0; k+2 < n; k++ {
		v := make([]complex128, n)
		norm := 0.0
		for i := k + 1; i < n; i++ {
			v[i] = t.at(i, k)
			norm = math.Hypot(norm, cmplx.Abs(v[i]))
		}
		if norm == 0 {
			continue
		}
		phase := complex128(1)
		if v[k+1] != 0 {
			phase = v[k+1] / complex(cmplx.Abs(v[k+1]), 0)
		}
		v[k+1] += phase * complex(norm, 0)
		reflect(t, v, k+1)
		reflectColumns(t, v, k+1)
		reflectColumns(q, v, k+1)
		for i := k + 2; i < n; i++ {
			t.set(i, k, 0)
		}
	}
}

// reflectColumns applies the reflection of v from the right.
func reflectColumns(m *matrix, v []complex128, k int) {
	square := 0.0
	for _, e := range v[k:] {
		square += real(e)*real(e) + imag(e)*imag(e)
	}
	m.look()
	for i := range m.rows {
		row := m.row(i)
		var dot complex128
		for j := k; j < len(v); j++ {
			dot += row[j] * v[j]
		}
		dot *= complex(2/square, 0)
		for j := k; j < len(v); j++ {
			row[j] -= dot * cmplx.Conj(v[j])
		}
	}
}

// wilkinson returns the eigenvalue of the trailing 2×2 block that is closer to the block's last element.
func wilkinson(t *matrix, hi int) complex128 {
	a, b, c, d := t.at(hi-1, hi-1), t.at(hi-1, hi), t.at(hi, hi-1), t.at(hi, hi)
	half := (a - d) / 2
	root := cmplx.Sqrt(half*half + b*c)
	if cmplx.Abs(half-root) < cmplx.Abs(half+root) {
		return d + half - root
	}
	return d + half + root
}

// qrStep is one QR iteration on rows and columns lo to hi by Givens rotations.
func qrStep(t, q *matrix, lo, hi int, shift complex128) {
	t.look()
	n := t.rows
	type rotation struct{ c, s complex128 }
	rotations := make([]rotation, hi-lo)
	for i := lo; i <= hi; i++ {
		t.set(i, i, t.at(i, i)-shift)
	}
	for k := lo; k < hi; k++ {
		x, y := t.at(k, k), t.at(k+1, k)
		norm := math.Hypot(cmplx.Abs(x), cmplx.Abs(y))
		g := rotation{1, 0}
		if norm > 0 {
			g = rotation{x / complex(norm, 0), y / complex(norm, 0)}
		}
		rotations[k-lo] = g
		top, below := t.row(k), t.row(k+1)
		for j := k; j < n; j++ {
			a, b := top[j], below[j]
			top[j] = cmplx.Conj(g.c)*a + cmplx.Conj(g.s)*b
			below[j] = g.c*b - g.s*a
		}
	}
	columns := func(m *matrix, k, rows int, g rotation) {
		for i := range rows {
			row := m.row(i)
			a, b := row[k], row[k+1]
			row[k] = a*g.c + b*g.s
			row[k+1] = b*cmplx.Conj(g.c) - a*cmplx.Conj(g.s)
		}
	}
	for k := lo; k < hi; k++ {
		columns(t, k, min(k+2, hi+1), rotations[k-lo])
		columns(q, k, n, rotations[k-lo])
	}
	for i := lo; i <= hi; i++ {
		t.set(i, i, t.at(i, i)+shift)
	}
}

// general returns the function of Eig.
func general(vectors bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		n := in[0].rows
		t, q, ok := schur(in[0])
		if !ok {
			return status.InvalidArgumentf("Eigen decomposition was not successful. The input might not be valid.")
		}
		for i := range n {
			out[0][i] = t.at(i, i)
		}
		if vectors {
			copy(out[1], q.times(triangularVectors(t)).data)
			normalizeColumns(in[0].over(n, n, out[1]))
		}
		return nil
	}
}

// triangularVectors returns the eigenvectors of an upper triangular matrix as columns.
func triangularVectors(t *matrix) *matrix {
	n := t.rows
	v := t.like(n, n)
	size := 0.0
	for _, e := range t.data {
		size = max(size, cmplx.Abs(e))
	}
	least := complex(max(size*1.2e-16, 1e-300), 0)
	for k := range n {
		t.look()
		v.set(k, k, 1)
		for i := k - 1; i >= 0; i-- {
			var sum complex128
			for j := i + 1; j <= k; j++ {
				sum += t.at(i, j) * v.at(j, k)
			}
			d := t.at(k, k) - t.at(i, i)
			if cmplx.Abs(d) < real(least) {
				d = least
			}
			v.set(i, k, sum/d)
		}
	}
	return v
}

func normalizeColumns(m *matrix) {
	for j := range m.cols {
		norm := 0.0
		for i := range m.rows {
			norm = math.Hypot(norm, cmplx.Abs(m.at(i, j)))
		}
		for i := range m.rows {
			m.set(i, j, m.at(i, j)/complex(norm, 0))
		}
	}
}
