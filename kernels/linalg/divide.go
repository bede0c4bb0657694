package linalg

import (
	"math"
	"slices"
)

// Eigenvalues and eigenvectors of tridiagonal matrices, by divide and conquer. The two halves are joined by a matrix of rank one: the
// eigenvalues are then the roots of an equation, and the eigenvectors a product (Cuppen, 1981; Gu and Eisenstat, "A divide-and-conquer
// algorithm for the symmetric tridiagonal eigenproblem", 1995). The algorithm is that of LAPACK's dstedc.

const (
	// undivided is the size up to which matrices are not divided further.
	undivided = 8
	epsilon   = 0x1p-53
)

// tridiagonalEigen replaces the diagonal by the eigenvalues in ascending order, and sets rows to the eigenvectors. It overwrites the
// off-diagonal elements. ok is false if the iteration does not converge.
func tridiagonalEigen(diagonal, beside []float64, rows view[float64]) (ok bool) {
	n := len(diagonal)
	if n <= undivided {
		return smallEigen(diagonal, beside, rows)
	}
	h := n / 2
	joint := beside[h-1]
	diagonal[h-1] -= math.Abs(joint)
	diagonal[h] -= math.Abs(joint)
	for i := range n {
		clear(rows.row(i))
	}
	if !tridiagonalEigen(diagonal[:h], beside[:h-1], rows.part(0, 0, h, h)) ||
		!tridiagonalEigen(diagonal[h:], beside[h:], rows.tail(h, h)) {
		return false
	}
	d := newScratch[float64](rows.step)
	defer d.release()
	m := merger{diagonal: diagonal, rows: rows, half: h, scratch: d}
	m.join(joint)
	return true
}

// merger joins the eigenvectors of two halves.
type merger struct {
	*scratch[float64]
	diagonal []float64
	rows     view[float64]
	half     int
	z        []float64 // the matrix that joins the halves is weight·z·zᵀ
	weight   float64
	order    []int // the eigenvectors, by ascending eigenvalue
	kept     []int // those that change
	done     []int // those that stay
	kind     []int // the columns of a row that may be nonzero: 0 for the first half, 1 for all, 2 for the second half
}

// join joins the halves. joint is the off-diagonal element between them.
func (m *merger) join(joint float64) {
	n := len(m.diagonal)
	m.z, m.order, m.kind = m.list(n), make([]int, n), make([]int, n)
	sign := math.Copysign(1, joint)
	for i := range n {
		m.order[i] = i
		if i < m.half {
			m.z[i] = m.rows.row(i)[m.half-1] * math.Sqrt2 / 2
		} else {
			m.z[i], m.kind[i] = sign*m.rows.row(i)[m.half]*math.Sqrt2/2, 2
		}
	}
	m.weight = 2 * math.Abs(joint)
	byValue := func(a, b int) int {
		switch {
		case m.diagonal[a] < m.diagonal[b]:
			return -1
		case m.diagonal[a] > m.diagonal[b]:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(m.order, byValue)
	m.deflate()
	changed, values := m.changed()
	// Sort the results.
	all := slices.Concat(m.done, m.kept)
	for i, k := range m.kept {
		m.diagonal[k] = values[i]
	}
	slices.SortStableFunc(all, byValue)
	place := make([]int, n) // index of an eigenvector among the changed ones, plus one
	for i, k := range m.kept {
		place[k] = i + 1
	}
	sorted, to := m.matrix(n, n), m.list(n)
	for i, k := range all {
		to[i] = m.diagonal[k]
		if place[k] > 0 {
			copy(sorted.row(i), changed.row(place[k]-1))
		} else {
			copy(sorted.row(i), m.rows.row(k))
		}
	}
	copy(m.diagonal, to)
	m.rows.copyFrom(sorted)
}

// deflate finds the eigenvectors that stay: their element of z is negligible, or a rotation makes it zero because two eigenvalues are
// nearly equal.
func (m *merger) deflate() {
	top := 0.0
	for i, d := range m.diagonal {
		top = max(top, math.Abs(d), math.Abs(m.z[i]))
	}
	tolerance := 8 * 2 * epsilon * top
	last := -1
	for _, k := range m.order {
		if m.weight*math.Abs(m.z[k]) <= tolerance {
			m.done = append(m.done, k)
			continue
		}
		if last >= 0 && m.rotated(last, k, tolerance) {
			m.kept[len(m.kept)-1] = k
			m.done = append(m.done, last)
		} else {
			m.kept = append(m.kept, k)
		}
		last = k
	}
}

// rotated rotates eigenvectors i and k to make the first one's element of z zero, and reports whether it did: it does so only if the matrix
// stays nearly diagonal.
func (m *merger) rotated(i, k int, tolerance float64) bool {
	size := math.Hypot(m.z[i], m.z[k])
	c, s := m.z[k]/size, -m.z[i]/size
	di, dk := m.diagonal[i], m.diagonal[k]
	if math.Abs((dk-di)*c*s) > tolerance {
		return false
	}
	m.z[i], m.z[k] = 0, size
	if m.kind[i] != m.kind[k] {
		m.kind[k] = 1
	}
	a, b := m.rows.row(i), m.rows.row(k)
	for j, x := range a {
		y := b[j]
		a[j], b[j] = c*x+s*y, c*y-s*x
	}
	m.diagonal[i], m.diagonal[k] = di*c*c+dk*s*s, di*s*s+dk*c*c
	return true
}

// changed computes the new eigenvalues and eigenvectors.
func (m *merger) changed() (view[float64], []float64) {
	n, count := len(m.diagonal), len(m.kept)
	out := m.matrix(count, n)
	if count == 0 {
		return out, nil
	}
	e := secular{d: m.list(count), squares: m.list(count), weight: m.weight}
	for i, k := range m.kept {
		e.d[i], e.squares[i] = m.diagonal[k], m.z[k]*m.z[k]
	}
	values, apart := m.list(count), m.matrix(count, count) // row i holds the differences between the poles and value i
	for i := range count {
		m.look()
		values[i] = e.root(i, apart.row(i))
	}
	// With the z for which these values are exact, the eigenvectors are orthogonal.
	exact := m.list(count)
	for j := range exact {
		exact[j] = -apart.row(j)[j]
	}
	for i := range count {
		differences := apart.row(i)
		for j := range exact[:i] {
			exact[j] *= differences[j] / (e.d[j] - e.d[i])
		}
		for j := i + 1; j < count; j++ {
			exact[j] *= differences[j] / (e.d[j] - e.d[i])
		}
	}
	for j, k := range m.kept {
		exact[j] = math.Copysign(math.Sqrt(max(0, exact[j])), m.z[k])
	}
	// The columns of weights are grouped by kind, so that products can skip zeros.
	var byKind []int
	var ends [3]int
	for kind := range ends {
		for j, k := range m.kept {
			if m.kind[k] == kind {
				byKind = append(byKind, j)
			}
		}
		ends[kind] = len(byKind)
	}
	weights, row := m.matrix(count, count), m.list(count)
	for i := range count {
		square := 0.0
		for j, difference := range apart.row(i) {
			row[j] = exact[j] / difference
			square += row[j] * row[j]
		}
		scale := 1 / math.Sqrt(square)
		to := weights.row(i)
		for at, j := range byKind {
			to[at] = row[j] * scale
		}
	}
	for _, p := range []struct{ first, end, column, columns int }{{0, ends[1], 0, m.half}, {ends[0], count, m.half, n - m.half}} {
		to := out.part(0, p.column, count, p.columns)
		if p.first == p.end {
			for i := range count {
				clear(to.row(i))
			}
			continue
		}
		from := m.matrix(p.end-p.first, p.columns)
		for i, j := range byKind[p.first:p.end] {
			copy(from.row(i), m.rows.row(m.kept[j])[p.column:])
		}
		setProduct(to, weights.part(0, p.first, count, p.end-p.first), from, false, false)
	}
	return out, values
}

// secular is the equation 1/weight + Σ squares/(d-λ) = 0. Its roots are the eigenvalues of the diagonal matrix d plus a matrix of rank one.
// d is in ascending order.
type secular struct {
	d, squares []float64
	weight     float64
}

// root returns root i, the first above d[i], and sets differences to the differences of all d from it. These are more accurate than the
// root.
func (e *secular) root(i int, differences []float64) float64 {
	n := len(e.d)
	if n == 1 {
		differences[0] = -e.weight * e.squares[0]
		return e.d[0] - differences[0]
	}
	// Search for the root's distance from the nearest pole, between low and high.
	inverse := 1 / e.weight
	left := min(i, n-2) // the last pole of the first sum; the poles to its right belong to the second
	origin, low, high, x := e.start(i, inverse)
	base := e.d[origin]
	for j, d := range e.d {
		differences[j] = d - base
	}
	poleLeft, poleRight := differences[left], differences[left+1]
	for range 100 {
		psi, psiSlope := sums(differences[:left+1], e.squares, x)
		phi, phiSlope := sums(differences[left+1:], e.squares[left+1:], x)
		f, slope := inverse+psi+phi, psiSlope+phiSlope
		if math.Abs(f) <= epsilon*(8*(math.Abs(psi)+math.Abs(phi))+2*inverse+math.Abs(x)*slope) {
			break
		}
		if f < 0 {
			low = max(low, x)
		} else {
			high = min(high, x)
		}
		step := middleWay(poleLeft-x, poleRight-x, f, psiSlope, phiSlope, i == n-1)
		if !(f*step < 0) {
			step = -f / slope
		}
		next := x + step
		if !(next > low && next < high) {
			next = low + (high-low)/2
		}
		if next == x || next == low || next == high {
			break
		}
		x = next
	}
	for j := range differences {
		differences[j] -= x
	}
	return base + x
}

// start returns the pole nearer to root i, and a first guess and bounds as distances from that pole.
func (e *secular) start(i int, inverse float64) (origin int, low, high, x float64) {
	if i == len(e.d)-1 {
		for _, q := range e.squares {
			high += e.weight * q
		}
		return i, 0, high, high / 2
	}
	gap := e.d[i+1] - e.d[i]
	middle := gap / 2
	rest := inverse
	for j, d := range e.d {
		if j != i && j != i+1 {
			rest += e.squares[j] / (d - e.d[i] - middle)
		}
	}
	p, q := e.squares[i], e.squares[i+1]
	f := rest - p/middle + q/(gap-middle)
	origin, low, high = i, 0, middle
	if f > 0 {
		a, b := rest*gap+p+q, p*gap
		root := math.Sqrt(math.Abs(a*a - 4*b*rest))
		if a > 0 {
			x = 2 * b / (a + root)
		} else {
			x = (a - root) / (2 * rest)
		}
	} else {
		origin, low, high = i+1, -(gap - middle), 0
		a, b := rest*gap-p-q, q*gap
		root := math.Sqrt(math.Abs(a*a + 4*b*rest))
		if a < 0 {
			x = 2 * b / (a - root)
		} else {
			x = -(a + root) / (2 * rest)
		}
	}
	if !(x > low && x < high) {
		x = low + (high-low)/2
	}
	return origin, low, high, x
}

// middleWay returns the step to the root of the function that has poles at left and right and matches the value and both slopes (Li,
// "Solving secular equations stably and efficiently", 1993). outside is set if the root lies to the right of both poles.
func middleWay(left, right, f, slopeLeft, slopeRight float64, outside bool) float64 {
	c := f - left*slopeLeft - right*slopeRight
	a := (left+right)*f - left*right*(slopeLeft+slopeRight)
	b := left * right * f
	root := math.Sqrt(math.Abs(a*a - 4*b*c))
	if outside {
		c = math.Abs(c)
		root = math.Sqrt(math.Abs(a*a - 4*b*c))
		if a >= 0 {
			return (a + root) / (2 * c)
		}
		return 2 * b / (a - root)
	}
	if a <= 0 {
		return (a - root) / (2 * c)
	}
	return 2 * b / (a + root)
}

// sums returns the sum of squares/(poles-x), and its slope.
func sums(poles, squares []float64, x float64) (sum, slope float64) {
	squares = squares[:len(poles)]
	var sum2, slope2 float64
	i := 0
	for ; i+2 <= len(poles); i += 2 {
		r, r2 := 1/(poles[i]-x), 1/(poles[i+1]-x)
		t, t2 := squares[i]*r, squares[i+1]*r2
		sum += t
		sum2 += t2
		slope += t * r
		slope2 += t2 * r2
	}
	if i < len(poles) {
		r := 1 / (poles[i] - x)
		t := squares[i] * r
		sum += t
		slope += t * r
	}
	return sum + sum2, slope + slope2
}
