package linalg

import (
	"math"
	"math/cmplx"
	"sort"
)

// qr factors m into a unitary matrix and an upper triangular one with a real diagonal, by Householder reflections. If full is set, q is
// square. Otherwise it has as many columns as r has rows.
func qr(m *matrix, full bool) (q, r *matrix) {
	r = m.clone()
	size := min(m.rows, m.cols)
	reflections, taus := make([][]complex128, size), make([]complex128, size)
	for k := range size {
		v, tau := householder(r, k)
		if v == nil {
			continue
		}
		reflectBy(r, v, k, tau)
		for i := k + 1; i < m.rows; i++ {
			r.set(i, k, 0)
		}
		reflections[k], taus[k] = v, tau
	}
	cols := size
	if full {
		cols = m.rows
	}
	q = m.like(m.rows, cols)
	for i := range cols {
		q.set(i, i, 1)
	}
	for k := size - 1; k >= 0; k-- {
		if reflections[k] != nil {
			reflectBy(q, reflections[k], k, cmplx.Conj(taus[k]))
		}
	}
	r.rows, r.data = cols, r.data[:cols*r.cols]
	return q, r
}

// householder returns the vector and the factor of the transformation 1 - tau·v·v* that clears column k of m below the diagonal. v is nil
// if the column is already clear and the diagonal real.
func householder(m *matrix, k int) (v []complex128, tau complex128) {
	tail := 0.0
	for i := k + 1; i < m.rows; i++ {
		tail = math.Hypot(tail, cmplx.Abs(m.at(i, k)))
	}
	head := m.at(k, k)
	if tail == 0 && imag(head) == 0 {
		return nil, 0
	}
	beta := complex(math.Hypot(cmplx.Abs(head), tail), 0)
	if real(head) >= 0 {
		beta = -beta
	}
	v = make([]complex128, m.rows)
	v[k] = 1
	for i := k + 1; i < m.rows; i++ {
		v[i] = m.at(i, k) / (head - beta)
	}
	return v, cmplx.Conj((beta - head) / beta)
}

// reflectBy applies 1 - tau·v·v* to m. v is zero before index k.
func reflectBy(m *matrix, v []complex128, k int, tau complex128) {
	m.look()
	dots := make([]complex128, m.cols)
	for i := k; i < m.rows; i++ {
		c := cmplx.Conj(v[i])
		for j, e := range m.row(i) {
			dots[j] += c * e
		}
	}
	for i := k; i < m.rows; i++ {
		f := tau * v[i]
		row := m.row(i)
		for j := range row {
			row[j] -= f * dots[j]
		}
	}
}

// reflect applies the Householder reflection of v, which is zero before index k, to m.
func reflect(m *matrix, v []complex128, k int) {
	square := 0.0
	for _, e := range v[k:] {
		square += real(e)*real(e) + imag(e)*imag(e)
	}
	reflectBy(m, v, k, complex(2/square, 0))
}

// qrFactors returns the function of Qr.
func qrFactors(full bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		q, r := qr(in[0], full)
		copy(out[0], q.data)
		copy(out[1], r.data)
		return nil
	}
}

// svd returns the singular values in descending order, and the singular vectors as columns. There are as many vectors as values or, if full
// is set, as many as rows (columns for v). One-sided Jacobi rotations make the columns of the matrix orthogonal.
func svd(a *matrix, full bool) (s []float64, u, v *matrix) {
	if a.rows < a.cols {
		s, v, u = svd(a.adjoint(), full)
		return s, u, v
	}
	// Store the columns of a and v as rows, which are contiguous.
	w, vt := a.like(a.cols, a.rows), a.identity(a.cols)
	for i := range a.rows {
		for j, e := range a.row(i) {
			w.set(j, i, e)
		}
	}
	for range 60 {
		if !orthogonalize(w, vt) {
			break
		}
	}
	n := a.cols
	s = make([]float64, n)
	order := make([]int, n)
	for j := range n {
		order[j] = j
		for _, e := range w.row(j) {
			s[j] = math.Hypot(s[j], cmplx.Abs(e))
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return s[order[i]] > s[order[j]] })
	u, v = a.like(a.rows, n), a.like(n, n)
	sorted := make([]float64, n)
	for to, from := range order {
		sorted[to] = s[from]
		for i, e := range w.row(from) {
			if s[from] > 0 {
				u.set(i, to, e/complex(s[from], 0))
			}
		}
		for i, e := range vt.row(from) {
			v.set(i, to, e)
		}
	}
	cols := n
	if full {
		cols = a.rows
	}
	return sorted, completed(u, sorted, cols), v
}

// orthogonalize rotates each pair of rows of w to make them orthogonal, and the rows of v with them. It reports whether it rotated any.
// Rows that consist only of rounding errors of others are skipped.
func orthogonalize(w, v *matrix) (turned bool) {
	largest := 0.0
	for i := range w.rows {
		square := 0.0
		for _, e := range w.row(i) {
			square += real(e)*real(e) + imag(e)*imag(e)
		}
		largest = max(largest, square)
	}
	for p := range w.rows {
		w.look()
		for q := p + 1; q < w.rows; q++ {
			a, b := w.row(p), w.row(q)
			var alpha, beta float64
			var gamma complex128
			for i := range a {
				alpha += real(a[i])*real(a[i]) + imag(a[i])*imag(a[i])
				beta += real(b[i])*real(b[i]) + imag(b[i])*imag(b[i])
				gamma += cmplx.Conj(a[i]) * b[i]
			}
			size := cmplx.Abs(gamma)
			if size <= 1e-16*math.Sqrt(alpha)*math.Sqrt(beta) || min(alpha, beta) <= 1e-33*largest || math.IsNaN(size) {
				continue
			}
			turned = true
			phase := gamma / complex(size, 0)
			zeta := (beta - alpha) / (2 * size)
			t := 1 / (math.Abs(zeta) + math.Hypot(1, zeta))
			if zeta < 0 {
				t = -t
			}
			c := 1 / math.Hypot(1, t)
			turn(a, b, c, c*t, phase)
			turn(v.row(p), v.row(q), c, c*t, phase)
		}
	}
	return turned
}

// turn rotates a pair of vectors, after removing the phase of the second.
func turn(a, b []complex128, c, s float64, phase complex128) {
	back := cmplx.Conj(phase)
	for i := range a {
		x, y := a[i], b[i]*back
		a[i] = complex(c, 0)*x - complex(s, 0)*y
		b[i] = complex(s, 0)*x + complex(c, 0)*y
	}
}

// completed extends the orthonormal columns of u (those whose singular value is not negligible) to cols columns, with unit vectors made
// orthogonal to the preceding columns.
func completed(u *matrix, s []float64, cols int) *matrix {
	out := u.like(u.rows, cols)
	columns := make([][]complex128, 0, cols)
	candidate := 0
	for j := range cols {
		c := make([]complex128, u.rows)
		if j < u.cols && s[j] > s[0]*1e-16 {
			for i := range c {
				c[i] = u.at(i, j)
			}
		} else {
			for ; candidate < u.rows; candidate++ {
				u.look()
				clear(c)
				c[candidate] = 1
				if orthonormal(c, columns) {
					candidate++
					break
				}
			}
		}
		columns = append(columns, c)
		for i, e := range c {
			out.set(i, j, e)
		}
	}
	return out
}

// orthonormal removes the components along others from c and normalizes it. It returns false if little is left.
func orthonormal(c []complex128, others [][]complex128) bool {
	for range 2 {
		for _, o := range others {
			var dot complex128
			for i, e := range o {
				dot += cmplx.Conj(e) * c[i]
			}
			for i, e := range o {
				c[i] -= dot * e
			}
		}
	}
	norm := 0.0
	for _, e := range c {
		norm = math.Hypot(norm, cmplx.Abs(e))
	}
	if norm < 1e-6 {
		return false
	}
	for i := range c {
		c[i] /= complex(norm, 0)
	}
	return true
}

// singular returns the function of Svd.
func singular(vectors, full bool) func(in []*matrix, out [][]complex128) error {
	return func(in []*matrix, out [][]complex128) error {
		a := in[0]
		if a.rows == 0 || a.cols == 0 {
			if vectors && full {
				copy(out[1], identityMatrix(a.rows).data)
				copy(out[2], identityMatrix(a.cols).data)
			}
			return nil
		}
		s, u, v := svd(a, full && vectors)
		for i, e := range s {
			out[0][i] = complex(e, 0)
		}
		if vectors {
			copy(out[1], u.data)
			copy(out[2], v.data)
		}
		return nil
	}
}
